import { sumOfEntry } from '../sql/checksum.ts';
import type { Replacements } from '../sql/redaction.ts';
import type { Position } from './locate-run.ts';
import { readSum, readTexts, splitRow } from './read-journal.ts';
import type { Statements } from './statements.ts';

/**
 * Replaces the JSON and the state hashes of entries, by seq. Verifies the old checksums and recomputes all of them from
 * the first changed entry on. Returns the position with the new checksum. Throws `journal-damaged`.
 */
export function rewriteEntries(
  sql: Statements,
  runId: string,
  position: Position,
  changed: Replacements,
): Position {
  if (changed.size === 0) return position;
  const { run, base, seq: last } = position;
  const before = Math.min(...changed.keys()) - 1;
  readTexts(sql, runId, before);
  let sum = '';
  let next = before + 1;
  for (const found of sql.rows.all(run, before, run, last)) {
    const entries = splitRow(runId, next, found);
    const written = entries.map(entry => ({ ...entry, ...changed.get(entry.seq) }));
    next = Number(found.seq) + 1;
    let sums = '';
    for (const entry of written) {
      if (sum === '' && entry.seq === before + 1) sum = readSum(sql, runId, { run, seq: before, base });
      sum = entry.seq <= before ? entry.sum : sumOfEntry(sum, entry.text, entry.stateHash);
      sums += sum;
    }
    const json = written.map(({ text }) => text).join('\n');
    sql.rewriteRow.run(written.at(-1)?.stateHash ?? null, sums, json, run, Number(found.seq));
  }
  sql.rewriteEnd.run(sum, run);
  return { ...position, sum };
}
