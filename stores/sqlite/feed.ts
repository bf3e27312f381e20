import * as z from 'zod';
import type { DeltaStore, StoreFeed, TakenCursor } from '../../protocol/store.ts';
import { refuseClaim } from '../lease.ts';
import { readFeedQuery, WHOLE } from '../list-query.ts';
import { SUM_CHARS } from '../sql/checksum.ts';
import { cursorOf, escapeText, fillPage, readHolder, unescapeText } from '../sql/rows.ts';
import type { Watchers } from '../watchers.ts';
import type { Connection } from './connection.ts';
import { readEntryRows } from './journal.ts';

/** An append gets its position in its transaction, and one writes at a time: later ones are always higher. */
export function sqliteFeed(connection: Connection): StoreFeed {
  return {
    async read(query = {}) {
      const { position, limit } = readFeedQuery(query);
      return await connection.read(sql =>
        fillPage(query, sql.feed.iterate(position, limit + 1), (row, { runId, from, left }) => {
          const { seq, sums } = rowSchema.parse(row);
          const before = Math.max(from, seq - sums / SUM_CHARS);
          return readEntryRows(sql, runId, before, { ...WHOLE, entries: Math.min(left, seq - before) });
        }),
      );
    },

    async end() {
      return await connection.query(sql => cursorOf(sql.feedEnd.get()));
    },

    async take(name, request) {
      return await connection.write<TakenCursor>(sql => {
        const row = sql.listener.get(name);
        const refusal = refuseClaim(readHolder(row), request);
        if (refusal !== undefined) return refusal;
        const cursor = row === undefined ? cursorOf(sql.feedEnd.get()) : String(row.cursor);
        sql.setListener.run(name, cursor, JSON.stringify(request.owner), request.until);
        return { type: 'taken', cursor };
      });
    },

    async save(name, ownerId, { cursor, until }) {
      return await connection.write(sql => {
        const row = sql.listener.get(name);
        if (readHolder(row)?.owner.id !== ownerId) return false;
        sql.setListener.run(name, cursor, String(row?.owner), until);
        return true;
      });
    },
  };
}

const rowSchema = z.object({ seq: z.number(), sums: z.number() });

/** How often it looks for commits of other processes while anything is watched, in ms. */
const LOOK_MS = 50;

/** Calls the watchers when another process commits, which changes a number that costs microseconds to read. */
export function watchChanges(connection: Connection, watchers: Watchers) {
  let known: unknown;
  let position: number | undefined;
  let timer: NodeJS.Timeout | undefined;

  const stop = () => {
    clearTimeout(timer);
    timer = undefined;
  };
  const findChanges = () =>
    connection.query(sql => {
      const version = sql.dataVersion.get()?.data_version;
      if (version === known && position !== undefined) return undefined;
      known = version;
      const from = position;
      position = Number(sql.feedEnd.get()?.position ?? 0);
      return from === undefined ? 'anything' : sql.changedRuns.all(from);
    });
  const look = async () => {
    timer = setTimeout(look, LOOK_MS).unref();
    if (watchers.isEmpty) return stop();
    try {
      const changed = await findChanges();
      if (changed === undefined) return;
      if (changed === 'anything') return watchers.notifyAll();
      for (const { run_id } of changed) watchers.notifyRun(unescapeText(String(run_id)));
      watchers.notifyWork();
    } catch {
      // The file cannot be read now; the next look comes.
    }
  };
  return {
    start(): void {
      if (timer !== undefined) return;
      position = undefined;
      void look();
    },
    stop,
  };
}

/** How long a run keeps its row after its last follower has left, in ms. */
const FORGET_MS = 60_000;

/** The texts of turns in progress, in the table `deltas`. Reads come first: most calls then need no write. */
export function sqliteDeltas(connection: Connection): DeltaStore {
  const read = (key: string) => connection.query(sql => sql.deltas.get(key));
  return {
    async follow(runId, { now, until }) {
      const key = escapeText(runId);
      const row = await read(key);
      if (Number(row?.followed_until ?? 0) < (now + until) / 2) {
        await connection.write(sql => {
          sql.forgetDeltas.run(now - FORGET_MS);
          sql.followDeltas.run(until, key);
        });
      }
      return typeof row?.json === 'string' ? { seq: Number(row.seq), json: row.json } : undefined;
    },

    async save(runId, { seq, json, redactions = 0 }, now) {
      const key = escapeText(runId);
      const row = await read(key);
      if (Number(row?.followed_until ?? 0) <= now) return false;
      return await connection.write(
        sql => Number(sql.saveDeltas.run(seq, json, key, redactions, now).changes) === 1,
      );
    },

    async clear(runId) {
      const key = escapeText(runId);
      if (typeof (await read(key))?.json !== 'string') return;
      await connection.write(sql => void sql.clearDeltas.run(key));
    },
  };
}
