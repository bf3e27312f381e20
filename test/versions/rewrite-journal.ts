import { DatabaseSync } from 'node:sqlite';
import { sumOfEntry, sumOfRecord } from '../../stores/sqlite/checksum.ts';

/** Changes the text of a journal as if another release had written it. */
export function rewriteJournal(
  file: string,
  runId: string,
  change: (text: string, seq: number) => string,
): void {
  const db = new DatabaseSync(file);
  const record = db.prepare('SELECT * FROM runs WHERE run_id = ?').get(runId) ?? {};
  let sum = sumOfRecord(record);
  for (const { seq, json } of db
    .prepare('SELECT seq, json FROM events WHERE run_id = ? ORDER BY seq')
    .all(runId)) {
    const text = change(String(json), Number(seq));
    sum = sumOfEntry(sum, text);
    db.prepare('UPDATE events SET json = ?, sum = ? WHERE run_id = ? AND seq = ?').run(
      text,
      sum,
      runId,
      seq ?? 0,
    );
  }
  db.prepare('UPDATE runs SET sum = ? WHERE run_id = ?').run(sum, runId);
  db.close();
}
