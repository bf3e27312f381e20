import { EngineError } from '../../protocol/error.ts';
import type { RunRecord } from '../../protocol/store.ts';
import { missingRun } from '../run-record.ts';
import { escapeText, type Row, toRecord } from './rows.ts';
import type { Statements } from './statements.ts';

/** Which run, how long its journal is, the checksum of its last entry, and under which epoch it is written. */
export type Position = { run: number; seq: number; sum: string; epoch: number; status: string };

/** `row` has the lease and the base. Throws `run-unknown`, and `store-damaged` as `describeRun`. */
export function locateRun(sql: Statements, runId: string): Position & { row: Row } {
  const row = findRow(sql.position, sql, runId);
  if (row === undefined) throw missingRun(runId);
  const { run, seq, epoch, sum, status } = row;
  return {
    row,
    run: Number(run),
    seq: Number(seq),
    epoch: Number(epoch),
    sum: String(sum),
    status: String(status),
  };
}

/** The run's record. Throws `store-damaged` if it makes no sense, or is missing although the run was created. */
export function describeRun(sql: Statements, runId: string): RunRecord | undefined {
  const row = findRow(sql.run, sql, runId);
  return row && toRecord(row);
}

function findRow(
  statement: Statements['run'],
  { journal }: Pick<Statements, 'journal'>,
  runId: string,
): Row | undefined {
  const key = escapeText(runId);
  const row = statement.get(key);
  if (row?.run_id === key) return row;
  if (row === undefined && journal.get(key) === undefined) return undefined;
  throw new EngineError(
    'store-damaged',
    `The record of run "${runId}" is missing, but its journal is not. Restore the store from a backup.`,
    { runId },
  );
}
