import type { StoredSnapshot } from '../../protocol/store.ts';
import { describeDamage } from '../journal-text.ts';
import { sumOfSnapshot } from './checksum.ts';
import { escapeText, type Row } from './rows.ts';

/**
 * Returns the snapshot in a row, which also has the `base` of the run. A damaged snapshot is ignored if the journal is
 * complete; for an adopted run it throws `journal-damaged`.
 */
export function toSnapshot(runId: string, row: Row | undefined): StoredSnapshot | undefined {
  if (row === undefined) return undefined;
  const [seq, text, base] = [Number(row.seq), String(row.state), Number(row.base)];
  if (row.sum === sumOfSnapshot(escapeText(runId), seq, text)) return { seq, state: JSON.parse(text) };
  if (base === 0) return undefined;
  throw describeDamage(
    runId,
    base,
    'and the entries before it exist only in a snapshot, which does not match its checksum',
  );
}
