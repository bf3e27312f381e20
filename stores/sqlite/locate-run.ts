import { EngineError } from '../../protocol/error.ts';
import type { RunRecord, RunStatus } from '../../protocol/store.ts';
import type { Lease } from '../lease.ts';
import { missingRun } from '../run-record.ts';
import { escapeText, type Row, toLease, toRecord } from '../sql/rows.ts';
import type { Statements } from './statements.ts';

/**
 * A run's number, the start and the end of its journal, the checksum of its last entry, its epoch, its redactions and its
 * status; when it has to be driven again, in ms since the epoch; and whether rows exist after the recorded end of the journal.
 */
export type Position = {
  run: number;
  base: number;
  seq: number;
  sum: string;
  epoch: number;
  redactions: number;
  status: RunStatus;
  wakeAt: number | undefined;
  hasRowsPastEnd: boolean;
};

/** Returns the position of a run. Throws `run-unknown`, and `store-damaged` like `describeRun`. */
export function locateRun(sql: Statements, runId: string): Position {
  const row = findRow(sql.position, sql, runId);
  if (row === undefined) throw missingRun(runId);
  const { run, base, seq, epoch, redactions, sum, status, wake_at: wakeAt } = row;
  return {
    run: Number(run),
    base: Number(base),
    seq: Number(seq),
    epoch: Number(epoch),
    redactions: Number(redactions),
    sum: String(sum),
    status: String(status) as RunStatus,
    wakeAt: wakeAt === null ? undefined : Number(wakeAt),
    hasRowsPastEnd: row.has_rows_past_end === 1,
  };
}

/** Returns the lease of a run, if any. Throws `store-damaged` for invalid columns. */
export function findLease(sql: Statements, run: number): Lease | undefined {
  const row = sql.lease.get(run);
  return row && toLease(row);
}

/** Returns the run's record. Throws `store-damaged` for invalid columns, or if only the run's journal exists. */
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
