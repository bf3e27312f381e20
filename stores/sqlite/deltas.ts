import type { DeltaStore } from '../../protocol/store.ts';
import { escapeText } from '../sql/rows.ts';
import type { Connection } from './connection.ts';

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
