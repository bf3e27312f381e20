import type { DeltaStore, StoreFeed, TakenCursor } from '../../protocol/store.ts';
import { refuseClaim } from '../lease.ts';
import { readFeedQuery } from '../list-query.ts';
import { cursorOf, escapeText, fillPage, type Row, readHolder, type Transaction } from '../sql/rows.ts';
import type { Database } from './database.ts';
import { decodeEntries, readRow } from './journal.ts';

/**
 * The feed of a PostgreSQL store. The position of an append is the number of its transaction (`position_of`), and an
 * entry is in the feed once every transaction with a lower number has ended. So none can appear before one that was
 * read, in any order of their commits.
 */
export function postgresFeed(database: Database, now: () => number): StoreFeed {
  const horizon = `@position_of(pg_snapshot_xmin(pg_current_snapshot()))`;
  const findEnd = async () => {
    const [row] = await database.query(
      `SELECT position, seq FROM @appends WHERE position < ${horizon} ORDER BY position DESC LIMIT 1`,
    );
    return cursorOf(row);
  };
  return {
    async read(query = {}) {
      const { position, limit } = readFeedQuery(query);
      const rows = await database.query(
        `SELECT r.run_id, a.* FROM @appends a JOIN @runs r USING (run)
         WHERE a.position >= $1 AND a.position < ${horizon} ORDER BY a.position LIMIT $2`,
        ...[position, limit + 1],
      );
      return fillPage(query, rows, (row, { runId, from }) =>
        decodeEntries(
          runId,
          readRow(runId, row).filter(({ seq }) => seq > from),
        ),
      );
    },

    end: findEnd,

    async take(name, { owner, now, until, isDead }) {
      const end = await findEnd();
      return await database.transact<TakenCursor>(async query => {
        await query(
          `INSERT INTO @listeners (name, cursor, owner, until) VALUES ($1, $2, $3, 0) ON CONFLICT DO NOTHING`,
          ...[name, end, JSON.stringify(owner)],
        );
        const [row] = await query(
          `SELECT cursor, owner, until - @now_ms() + $2::float8 AS until FROM @listeners WHERE name = $1 FOR UPDATE`,
          ...[name, now],
        );
        const refusal = refuseClaim(readHolder(row), { owner, now, isDead });
        if (refusal !== undefined) return refusal;
        await query(
          `UPDATE @listeners SET owner = $2, until = @now_ms() + $3::float8 WHERE name = $1`,
          ...[name, JSON.stringify(owner), until - now],
        );
        return { type: 'taken', cursor: String(row?.cursor) };
      });
    },

    async save(name, ownerId, { cursor, until }) {
      const saved = await database.query(
        `UPDATE @listeners SET cursor = $3, until = @now_ms() + $4::float8
         WHERE name = $1 AND owner::jsonb ->> 'id' = $2 RETURNING 1`,
        ...[name, ownerId, cursor, until - now()],
      );
      return saved.length > 0;
    },
  };
}

/** How long a run keeps its row after its last follower has left, in ms. */
const FORGET_MS = 60_000;

/** The texts of turns in progress, in the table `deltas`. Reads come first: most calls then need no write. */
export function postgresDeltas(query: Transaction): DeltaStore {
  const read = async (key: string): Promise<Row | undefined> => {
    const [row] = await query(
      `SELECT d.followed_until - @now_ms() AS left_ms, d.seq, d.json
       FROM @runs r JOIN @deltas d USING (run) WHERE r.run_id = $1`,
      key,
    );
    return row;
  };
  return {
    async follow(runId, { now, until }) {
      const key = escapeText(runId);
      const row = await read(key);
      if (Number(row?.left_ms ?? 0) < (until - now) / 2) {
        await query(`DELETE FROM @deltas WHERE followed_until < @now_ms() - ${FORGET_MS}`);
        await query(
          `INSERT INTO @deltas AS old (run, followed_until)
           SELECT run, @now_ms() + $2::float8 FROM @runs WHERE run_id = $1
           ON CONFLICT (run) DO UPDATE SET followed_until = GREATEST(old.followed_until, excluded.followed_until)`,
          ...[key, until - now],
        );
      }
      return typeof row?.json === 'string' ? { seq: Number(row.seq), json: row.json } : undefined;
    },

    async save(runId, { seq, json, redactions = 0 }) {
      const key = escapeText(runId);
      if (Number((await read(key))?.left_ms ?? 0) <= 0) return false;
      const saved = await query(
        `UPDATE @deltas d SET seq = $2, json = $3 FROM @runs r
         WHERE r.run_id = $1 AND r.redactions = $4 AND d.run = r.run AND d.followed_until > @now_ms() RETURNING 1`,
        ...[key, seq, json, redactions],
      );
      return saved.length > 0;
    },

    async clear(runId) {
      await query(
        `UPDATE @deltas d SET seq = NULL, json = NULL FROM @runs r
         WHERE r.run_id = $1 AND d.run = r.run AND d.json IS NOT NULL`,
        escapeText(runId),
      );
    },
  };
}
