import type { DeltaStore } from '../../protocol/store.ts';
import { escapeText, type Row, type Transaction } from '../sql/rows.ts';

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
