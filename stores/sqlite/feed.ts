import * as z from 'zod';
import type { StoreFeed, TakenCursor } from '../../protocol/listing/feed.ts';
import { readFeedQuery } from '../feed-cursor.ts';
import { refuseClaim } from '../lease.ts';
import { WHOLE } from '../page.ts';
import { SUM_CHARS } from '../sql/checksum.ts';
import { cursorOf, fillPage, readHolder } from '../sql/feed-page.ts';
import type { Connection } from './database/connection.ts';
import { readEntries } from './read-journal.ts';

/**
 * The feed of a SQLite store. An append gets its position within its transaction. Only one transaction writes at a time,
 * so a position that becomes visible later is always higher.
 */
export function sqliteFeed(connection: Connection): StoreFeed {
  return {
    async read(query = {}) {
      const { position, limit } = readFeedQuery(query);
      return await connection.read(sql =>
        fillPage(query, sql.feed.iterate(position, limit + 1), (row, { runId, from, left }) => {
          const { seq, sums } = rowSchema.parse(row);
          const before = Math.max(from, seq - sums / SUM_CHARS);
          return readEntries(sql, runId, before, { ...WHOLE, entries: Math.min(left, seq - before) });
        }),
      );
    },

    async end() {
      return await connection.query(sql => cursorOf(sql.feedEnd.get()));
    },

    async take(name, request) {
      return await connection.write<TakenCursor>(sql => {
        const row = sql.listener.get(name);
        const refusal = refuseClaim(row && readHolder(row), request);
        if (refusal !== undefined) return refusal;
        const cursor = row === undefined ? cursorOf(sql.feedEnd.get()) : String(row.cursor);
        sql.setListener.run(name, cursor, JSON.stringify(request.owner), request.until);
        return { type: 'taken', cursor };
      });
    },

    async save(name, ownerId, { cursor, until }) {
      return await connection.write(sql => {
        const row = sql.listener.get(name);
        if (row === undefined || readHolder(row)?.owner.id !== ownerId) return false;
        sql.setListener.run(name, cursor, String(row.owner), until);
        return true;
      });
    },
  };
}

const rowSchema = z.object({ seq: z.number(), sums: z.number() });
