import { existingRun } from '../run-record.ts';
import { sumOfRecord } from '../sql/checksum.ts';
import { columnsOf, type NewRun } from '../sql/new-run.ts';
import { describeRun, type Position } from './locate-run.ts';
import type { Statements } from './statements.ts';

/**
 * Inserts a run without entries and returns its position. Throws `run-exists`, and `store-damaged` like `describeRun`.
 */
export function insertRun(sql: Statements, created: NewRun): Position {
  const { runId, labels, status, createdAt, base, wakeAt } = created;
  if (describeRun(sql, runId) !== undefined) throw existingRun(runId);
  const columns = columnsOf(created);
  const sum = sumOfRecord(columns);
  const inserted = sql.insertRun.run({ ...columns, wake_at: wakeAt ?? null, sum });
  const run = Number(inserted.lastInsertRowid);
  sql.nameJournal.run(columns.run_id, run);
  for (const [name, value] of Object.entries(labels))
    sql.insertLabel.run(run, name, value, createdAt, columns.run_id);
  return { run, base, seq: base, sum, epoch: 0, redactions: 0, status, wakeAt, hasRowsPastEnd: false };
}
