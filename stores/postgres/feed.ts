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
import { type FeedPlace, readFeedQuery, toCursor } from '../feed-cursor.ts';
import { decodeEntry } from '../journal-text.ts';
import { isHeld } from '../lease.ts';
import { type Row, readOwner, unescapeText } from '../rows.ts';
import type { Database } from './database.ts';
import { readRow } from './journal.ts';

/**
 * The feed of a PostgreSQL store. The position of an append is the number of its transaction (`positionOf`), and an
 * entry is in the feed once every transaction with a lower number has ended. So none can appear before one that was
 * read, in whatever order they commit.
 */
export class PostgresFeed implements StoreFeed {
  readonly #database: Database;
  readonly #schema: string;
  readonly #now: () => number;

  constructor(database: Database, schema: string, now: () => number) {
    this.#database = database;
    this.#schema = schema;
    this.#now = now;
  }

  async read(query: FeedQuery = {}): Promise<FeedPage> {
    const { limit, ...after } = readFeedQuery(query);
    const s = this.#schema;
    const rows = await this.#database.query(
      `SELECT r.run_id, a.* FROM ${s}.appends a JOIN ${s}.runs r USING (run)
       WHERE a.position >= $1 AND a.position < ${horizonOf(s)} ORDER BY a.position LIMIT $2`,
      ...[after.position, limit + 1],
    );
    const entries: FeedEntry[] = [];
    let last: FeedPlace = after;
    for (const row of rows) {
      const [position, seq] = [Number(row.position), Number(row.seq)];
      const from = position === after.position ? after.seq : 0;
      const left = limit - entries.length;
      if (seq <= from) continue;
      if (left <= 0) break;
      const read = readEntries(row, position, from, query.onDamaged).slice(0, left);
      entries.push(...read);
      last = { position, seq: read.at(-1)?.seq ?? seq };
    }
    return { entries, next: toCursor(last) };
  }

  async end(): Promise<string> {
    const s = this.#schema;
    const [row] = await this.#database.query(
      `SELECT position, seq FROM ${s}.appends WHERE position < ${horizonOf(s)} ORDER BY position DESC LIMIT 1`,
    );
    return toCursor({ position: Number(row?.position ?? 0), seq: Number(row?.seq ?? 0) });
  }

  async take(name: string, { owner, now, until, isDead }: CursorRequest): Promise<TakenCursor> {
    const s = this.#schema;
    const end = await this.end();
    return await this.#database.transact<TakenCursor>(async query => {
      await query(
        `INSERT INTO ${s}.listeners (name, cursor, owner, until) VALUES ($1, $2, $3, 0) ON CONFLICT DO NOTHING`,
        ...[name, end, JSON.stringify(owner)],
      );
      const [row] = await query(
        `SELECT cursor, owner, until - ${s}.now_ms() + $2::float8 AS until FROM ${s}.listeners WHERE name = $1 FOR UPDATE`,
        ...[name, now],
      );
      const lease = row && readLease(row);
      if (lease !== undefined && lease.owner.id !== owner.id && isHeld(lease, { now, isDead }))
        return { type: 'held', ...lease };
      await query(
        `UPDATE ${s}.listeners SET owner = $2, until = ${s}.now_ms() + $3::float8 WHERE name = $1`,
        ...[name, JSON.stringify(owner), until - now],
      );
      return { type: 'taken', cursor: String(row?.cursor) };
    });
  }

  async save(name: string, ownerId: string, { cursor, until }: { cursor: string; until: number }) {
    const s = this.#schema;
    const saved = await this.#database.query(
      `UPDATE ${s}.listeners SET cursor = $3, until = ${s}.now_ms() + $4::float8
       WHERE name = $1 AND owner::jsonb ->> 'id' = $2 RETURNING 1`,
      ...[name, ownerId, cursor, until - this.#now()],
    );
    return saved.length > 0;
  }
}

/** The first position of the transactions that have not all ended. */
function horizonOf(s: string): string {
  return `${s}.position_of(pg_snapshot_xmin(pg_current_snapshot()))`;
}

/** The entries of a row after `from`. */
function readEntries(
  row: Row,
  position: number,
  from: number,
  onDamaged: FeedQuery['onDamaged'],
): FeedEntry[] {
  const runId = unescapeText(String(row.run_id));
  try {
    return readRow(runId, row)
      .filter(({ seq }) => seq > from)
      .map(({ seq, text }) => ({
        runId,
        seq,
        event: decodeEntry(runId, seq, text).event,
        cursor: toCursor({ position, seq }),
      }));
  } catch (error) {
    if (!(error instanceof EngineError) || onDamaged === undefined) throw error;
    onDamaged(error);
    return [];
  }
}

function readLease(row: Row): { owner: Owner; until: number } | undefined {
  const owner = readOwner(row.owner);
  return owner && { owner, until: Number(row.until) };
}
