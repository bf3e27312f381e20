import type { StoreFeed, TakenCursor } from '../../protocol/store.ts';
import { refuseClaim } from '../lease.ts';
import { readFeedQuery } from '../page.ts';
import { cursorOf, fillPage, readHolder } from '../sql/feed-page.ts';
import type { Database } from './database.ts';
import { decodeEntries, readRow } from './journal.ts';

/**
 * The feed of a PostgreSQL store. The position of an append is the number of its transaction (`position_of`), and an
 * entry is in the feed once every transaction with a lower number has ended. So none can appear before one that was
 * read, in whatever order they commit.
 */
export function postgresFeed(database: Database, now: () => number): StoreFeed {
  /** The first position of the transactions that have not all ended. */
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
        const refusal = refuseClaim(row && readHolder(row), { owner, now, isDead });
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
