import type { StoredSnapshot } from '../../protocol/store.ts';
import { sumOfSnapshot } from '../sql/checksum.ts';
import { escapeText, type Transaction } from '../sql/rows.ts';
import { toSnapshot } from '../sql/snapshot.ts';

/** Stores the state after an entry, unless a later one is stored, or the run was redacted another number of times. */
export async function saveSnapshotAs(
  query: Transaction,
  s: string,
  { key, seq, redactions, text }: { key: string; seq: number; redactions: number; text: string },
): Promise<void> {
  await query(
    `INSERT INTO ${s}.snapshots AS old (run, seq, sum, state) SELECT run, $2, $3, $4 FROM ${s}.runs
     WHERE run_id = $1 AND redactions = $5 FOR SHARE
     ON CONFLICT (run) DO UPDATE SET seq = excluded.seq, sum = excluded.sum, state = excluded.state
     WHERE excluded.seq >= old.seq`,
    ...[key, seq, sumOfSnapshot(key, seq, text), text, redactions],
  );
}

/** Returns the stored snapshot. Throws the errors of `toSnapshot`. */
export async function readSnapshot(
  query: Transaction,
  s: string,
  runId: string,
): Promise<StoredSnapshot | undefined> {
  const [row] = await query(
    `SELECT n.seq, n.sum, n.state, r.base FROM ${s}.runs r JOIN ${s}.snapshots n USING (run) WHERE r.run_id = $1`,
    escapeText(runId),
  );
  return toSnapshot(runId, row);
}
