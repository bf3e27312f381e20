// server/runs/reading: pages of a journal, the state at an entry, and agents.

import type { Context } from 'hono';
import * as z from 'zod';
import { stampEvent } from '../../../engine/events/run-events.ts';
import { streamedBody } from '../../../engine/events/streamed-body.ts';
import { loadRunAt } from '../../../engine/journal/load-run.ts';
import { readPage } from '../../../engine/journal/read-journal.ts';
import { toStored } from '../../../machines/snapshot.ts';
import type { JournalEntry } from '../../../protocol/event.ts';
import { type JsonObject, omitUndefined } from '../../../protocol/json.ts';
import type { RunRecord, Store } from '../../../protocol/store.ts';
import { ApiError } from '../../error-envelope.ts';
import { fields, optional } from '../../fields.ts';
import type { RunsEnv } from '../../runs-env.ts';

const MOST_ENTRIES = 5_000;

/** The size of one page, in characters of JSON. The entry that reaches it is the page's last entry. */
const MOST_CHARS = 8 * 1024 * 1024;

const seq = z.exactOptional(z.coerce.number().int().nonnegative());

export const entriesQuery = fields({
  after: seq.meta({ description: 'Reads forward: the first entries after this seq. Default: 0.' }),
  before: optional(
    z.union([z.literal(''), z.coerce.number().int().positive()]),
    'Reads a tail: the last entries before this seq; empty for the newest.',
  ),
  limit: z.coerce.number().int().min(1).max(MOST_ENTRIES).default(256),
  state: optional(
    z.literal('true'),
    '"true" adds the state before the first of the entries, from which they can be folded.',
  ),
}).refine(({ after, before }) => after === undefined || before === undefined, {
  message: 'expected "after" or "before", got both',
});

export const entriesSchema = z.object({
  entries: z.array(z.custom<JsonObject>().meta({ type: 'object' })).meta({
    description: 'In order: { seq, runId, type, at, … }. Fewer than `limit` if they are large.',
  }),
  first: z.number().int().meta({ description: 'The seq of the first entry that the store has.' }),
  last: z.number().int().meta({ description: 'The seq of the last entry of the journal.' }),
  state: z.exactOptional(z.custom<JsonObject>()).meta({
    type: 'object',
    description: 'With `state=true`: the state before the first entry; missing at the start of the journal.',
  }),
});

export const stateQuery = fields({
  at: optional(z.coerce.number().int().positive(), 'The seq of an entry. Default: the last.'),
});

export const stateSchema = z.object({
  seq: z.number().int(),
  state: z
    .custom<JsonObject>()
    .meta({ type: 'object', description: 'The state after that entry: { value, context, status, chart }.' }),
});

export async function readEntries(
  c: Context<RunsEnv>,
  store: Store,
  { runId, seq: last }: RunRecord,
  { after, before, limit, state }: z.output<typeof entriesQuery>,
): Promise<Response> {
  const [start] = await readPage(store, runId, 0, { entries: 1 });
  const first = start?.seq ?? last + 1;
  const end = before === '' ? last + 1 : Math.min(before ?? last + 1, last + 1);
  const read =
    before === undefined
      ? await readUpTo(store, runId, { after: after ?? 0, until: (after ?? 0) + limit, keep: 'first' })
      : await readUpTo(store, runId, {
          after: Math.max(first - 1, end - 1 - limit),
          until: end - 1,
          keep: 'last',
        });
  const base = (read[0]?.seq ?? 1) - 1;
  const folded = state === undefined || base === 0 ? undefined : await loadRunAt(store, runId, base);
  const entries = read.map(entry => stampEvent(entry, runId));
  return c.json({ entries, first, last, ...omitUndefined({ state: folded && toStored(folded.state) }) });
}

export async function readState(
  c: Context<RunsEnv>,
  store: Store,
  { runId, seq: last }: RunRecord,
  { at = last }: z.output<typeof stateQuery>,
): Promise<Response> {
  if (at > last)
    throw new ApiError('input-invalid', `The journal ends at entry ${last}. Set "at" to 1 to ${last}.`);
  const { state, seq: reached } = await loadRunAt(store, runId, at);
  return c.json({ seq: reached, state: toStored(state) });
}

/** If the entries are too large for one page, returns the first or the last of them. */
async function readUpTo(
  store: Store,
  runId: string,
  { after, until, keep }: { after: number; until: number; keep: 'first' | 'last' },
): Promise<JournalEntry[]> {
  const pages: { entries: JournalEntry[]; chars: number }[] = [];
  let chars = 0;
  for (let place = after; place < until; ) {
    const page = await readPage(store, runId, place, { entries: Math.min(256, until - place) });
    const entries = page.filter(entry => entry.seq <= until);
    const { seq: reached } = page.at(-1) ?? {};
    if (reached === undefined) break;
    place = reached;
    const size = JSON.stringify(entries).length;
    pages.push({ entries, chars: size });
    chars += size;
    if (keep === 'first' && chars >= MOST_CHARS) break;
    while (chars > MOST_CHARS && pages.length > 1) chars -= pages.shift()?.chars ?? 0;
  }
  return pages.flatMap(({ entries }) => entries);
}

const PAGE_BYTES = 64 * 1024;
const MOST_BYTES = 1024 * 1024;
/** The longest UTF-8 character, which every page must be able to hold. */
const LEAST_BYTES = 4;

export const resultQuery = z.object({
  offset: z.coerce.number().int().nonnegative().default(0).meta({ description: 'Bytes of UTF-8.' }),
  limit: z.coerce
    .number()
    .int()
    .min(LEAST_BYTES)
    .max(MOST_BYTES)
    .default(PAGE_BYTES)
    .meta({ description: 'Bytes of UTF-8.' }),
});

export const resultPageSchema = z.object({
  callId: z.string(),
  isError: z.boolean(),
  bytes: z.number().int().meta({ description: 'The size of the full JSON text in UTF-8.' }),
  digest: optional(z.string(), 'SHA-256, if the result is stored outside the journal.'),
  offset: z.number().int(),
  text: z.string().meta({ description: 'A part of the JSON text.' }),
  next: optional(z.number().int(), 'The offset of the next page; absent on the last.'),
});

export async function sendText(
  c: Context<RunsEnv>,
  pages: AsyncGenerator<Uint8Array, void>,
  name: string,
): Promise<Response> {
  // Read the first part before the response begins: a missing result must be an error status, not a broken download.
  const { value } = await pages.next();
  const body = streamedBody(pages, { begin: value ?? '', frame: page => page });
  return c.body(body, 200, {
    'Content-Type': 'text/plain; charset=utf-8',
    'Content-Disposition': `attachment; filename="${name}"`,
  });
}
