import * as z from 'zod';
import type { JournalEntry } from '../../protocol/event.ts';
import type { FeedEntry, FeedPage, FeedQuery } from '../../protocol/store.ts';
import type { Lease } from '../lease.ts';
import { type FeedPlace, readFeedQuery, toCursor } from '../page.ts';
import { type Row, readOrReport, readOwner, unescapeText } from './rows.ts';

const rowSchema = z.object({ position: z.coerce.number(), run_id: z.string(), seq: z.coerce.number() });

/** `rows`: the appends from the place of the query on. `read` returns those after `from`; `left` are needed. */
export function fillPage(
  query: FeedQuery,
  rows: Iterable<Row>,
  read: (row: Row, wanted: { runId: string; from: number; left: number }) => JournalEntry[],
): FeedPage {
  const { limit, ...after } = readFeedQuery(query);
  const entries: FeedEntry[] = [];
  let last: FeedPlace = after;
  for (const row of rows) {
    const { position, run_id, seq } = rowSchema.parse(row);
    const from = position === after.position ? after.seq : 0;
    const left = limit - entries.length;
    if (seq <= from) continue;
    if (left <= 0) break;
    const runId = unescapeText(run_id);
    const found = readOrReport(query, () => read(row, { runId, from, left })).slice(0, left);
    for (const { seq, event } of found)
      entries.push({ runId, seq, event, cursor: toCursor({ position, seq }) });
    last = { position, seq: found.at(-1)?.seq ?? seq };
  }
  return { entries, next: toCursor(last) };
}

export function cursorOf(row: Row | undefined): string {
  return toCursor({ position: Number(row?.position ?? 0), seq: Number(row?.seq ?? 0) });
}

export function readHolder(row: Row): Lease | undefined {
  const owner = readOwner(row.owner);
  return owner && { owner, until: Number(row.until) };
}
