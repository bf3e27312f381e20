import * as z from 'zod';
import { EngineError } from '../../protocol/error.ts';
import type {
  CursorRequest,
  FeedEntry,
  FeedPage,
  FeedQuery,
  StoreFeed,
  TakenCursor,
} from '../../protocol/listing/feed.ts';
import type { Owner } from '../../protocol/store.ts';
import { SUM_CHARS } from '../checksum.ts';
import { type FeedPlace, readFeedQuery, toCursor } from '../feed-cursor.ts';
import { isHeld } from '../lease.ts';
import { WHOLE } from '../page.ts';
import { type Row, readOwner, unescapeText } from '../rows.ts';
import type { Connection } from './database/connection.ts';
import { readEntries } from './read-journal.ts';
import type { Statements } from './statements.ts';

/**
 * The feed of a SQLite store. An append gets its position within its transaction. Only one transaction writes at a time,
 * so a position that becomes visible later is always higher.
 */
export class SqliteFeed implements StoreFeed {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  async read(query: FeedQuery = {}): Promise<FeedPage> {
    const { limit, ...after } = readFeedQuery(query);
    return await this.#connection.read(sql => {
      const entries: FeedEntry[] = [];
      let last: FeedPlace = after;
      for (const row of sql.feed.iterate(after.position, limit + 1)) {
        const { position, seq } = rowSchema.parse(row);
        if (position === after.position && seq <= after.seq) continue;
        const left = limit - entries.length;
        if (left <= 0) break;
        const from = position === after.position ? after.seq : 0;
        const read = readRow(sql, row, { from, left }, query.onDamaged);
        entries.push(...read);
        last = { position, seq: read.at(-1)?.seq ?? seq };
      }
      return { entries, next: toCursor(last) };
    });
  }

  async end(): Promise<string> {
    return await this.#connection.query(endOf);
  }

  async take(name: string, { owner, until, ...request }: CursorRequest): Promise<TakenCursor> {
    return await this.#connection.write<TakenCursor>(sql => {
      const row = sql.listener.get(name);
      const lease = row && readLease(row);
      if (lease !== undefined && lease.owner.id !== owner.id && isHeld(lease, request))
        return { type: 'held', ...lease };
      const cursor = row === undefined ? endOf(sql) : String(row.cursor);
      sql.setListener.run(name, cursor, JSON.stringify(owner), until);
      return { type: 'taken', cursor };
    });
  }

  async save(name: string, ownerId: string, { cursor, until }: { cursor: string; until: number }) {
    return await this.#connection.write(sql => {
      const row = sql.listener.get(name);
      if (row === undefined || readLease(row)?.owner.id !== ownerId) return false;
      sql.setListener.run(name, cursor, String(row.owner), until);
      return true;
    });
  }
}

const rowSchema = z.object({ position: z.number(), run_id: z.string(), seq: z.number(), sums: z.number() });

/** Reads the entries of one row, checked like those of a journal. */
function readRow(
  sql: Statements,
  row: Row,
  { from, left }: { from: number; left: number },
  onDamaged: FeedQuery['onDamaged'],
): FeedEntry[] {
  const { position, run_id, seq: last, sums } = rowSchema.parse(row);
  const runId = unescapeText(run_id);
  const before = Math.max(from, last - sums / SUM_CHARS);
  try {
    return readEntries(sql, runId, before, { ...WHOLE, entries: Math.min(left, last - before) }).map(
      ({ seq, event }) => ({ runId, seq, event, cursor: toCursor({ position, seq }) }),
    );
  } catch (error) {
    if (!(error instanceof EngineError) || onDamaged === undefined) throw error;
    onDamaged(error);
    return [];
  }
}

function endOf(sql: Statements): string {
  const row = sql.feedEnd.get();
  return toCursor({ position: Number(row?.position ?? 0), seq: Number(row?.seq ?? 0) });
}

function readLease(row: Row): { owner: Owner; until: number } | undefined {
  const owner = readOwner(row.owner);
  return owner && { owner, until: Number(row.until) };
}
