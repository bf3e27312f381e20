import type { StoredSnapshot } from '../../protocol/store.ts';
import { sumOfSnapshot } from '../checksum.ts';
import { describeDamage } from '../journal-text.ts';
import { escapeText, type Transaction } from '../rows.ts';

/** Stores the state after an entry, unless a later one is stored. */
export async function saveSnapshotAs(
  query: Transaction,
  s: string,
  { key, seq, text }: { key: string; seq: number; text: string },
): Promise<void> {
  await query(
    `INSERT INTO ${s}.snapshots AS old (run, seq, sum, state) SELECT run, $2, $3, $4 FROM ${s}.runs WHERE run_id = $1
     ON CONFLICT (run) DO UPDATE SET seq = excluded.seq, sum = excluded.sum, state = excluded.state
     WHERE excluded.seq >= old.seq`,
    ...[key, seq, sumOfSnapshot(key, seq, text), text],
  );
}

/**
 * Returns the stored snapshot. A damaged snapshot is ignored if the journal is complete; for an adopted run it throws
 * `journal-damaged`.
 */
export async function readSnapshot(
  query: Transaction,
  s: string,
  runId: string,
): Promise<StoredSnapshot | undefined> {
  const key = escapeText(runId);
  const [row] = await query(
    `SELECT n.seq, n.sum, n.state, r.base FROM ${s}.runs r JOIN ${s}.snapshots n USING (run) WHERE r.run_id = $1`,
    key,
  );
  if (row === undefined) return undefined;
  const [seq, text, base] = [Number(row.seq), String(row.state), Number(row.base)];
  if (row.sum === sumOfSnapshot(key, seq, text)) return { seq, state: JSON.parse(text) };
  if (base === 0) return undefined;
  throw describeDamage(
    runId,
    base,
    'and the entries before it exist only in a snapshot, which does not match its checksum',
  );
}
