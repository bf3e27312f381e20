import { DatabaseSync } from 'node:sqlite';
import { sumOfEntry, sumOfRecord } from '../../../stores/sql/checksum.ts';

/** Changes the text of a journal, with valid checksums, as if another release had written it. */
export function rewriteJournal(
  file: string,
  runId: string,
  change: (text: string, seq: number) => string,
): void {
  const db = new DatabaseSync(file);
  const record = db.prepare('SELECT * FROM runs WHERE run_id = ?').get(runId) ?? {};
  const run = Number(record.run);
  const rows = db.prepare('SELECT seq, json, state_hash FROM appends WHERE run = ? ORDER BY place').all(run);
  let sum = sumOfRecord(record);
  let seq = Number(record.base);
  for (const { seq: end, json, state_hash } of rows) {
    const texts = String(json)
      .split('\n')
      .map(text => change(text, ++seq));
    const sums = texts.map((text, index) => {
      const isLast = seq - texts.length + index + 1 === Number(end);
      sum = sumOfEntry(sum, text, isLast && state_hash !== null ? String(state_hash) : undefined);
      return sum;
    });
    db.prepare('UPDATE appends SET json = ?, sums = ? WHERE run = ? AND seq = ?').run(
      texts.join('\n'),
      sums.join(''),
      run,
      Number(end),
    );
  }
  db.prepare('UPDATE runs SET end_sum = ? WHERE run = ?').run(sum, run);
  db.close();
}
