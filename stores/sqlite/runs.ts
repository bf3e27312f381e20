import { EngineError } from '../../protocol/error.ts';
import type { RunRecord, RunStatus, WorkRequest } from '../../protocol/store.ts';
import { isWork, type Lease } from '../lease.ts';
import type { Kinship } from '../plan-deletion.ts';
import { assertUnredacted, existingRun, missingRun } from '../run-record.ts';
import { divideBlob, joinParts, startOfPart } from '../sql/blob-parts.ts';
import { sumOfRecord } from '../sql/checksum.ts';
import {
  columnsOf,
  escapeText,
  hasDeadOwner,
  type NewRun,
  type Row,
  toLease,
  toRecord,
  toRecords,
  toWaiting,
  unescapeText,
} from '../sql/rows.ts';
import type { Statements } from './statements.ts';

/** Where a journal ends. `sum`: the checksum of its last entry. `hasRowsPastEnd`: rows follow the recorded end. */
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

/** Inserts a run without entries. Throws `run-exists`, and `store-damaged` like `describeRun`. */
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

/** Deletes runs with all that belongs to them, and returns their ids. Throws `run-unknown` for a missing run. */
export function removeRuns(sql: Statements, doomed: string[]): string[] {
  if (doomed.length > 0) sql.raiseFloor.run();
  for (const id of doomed) {
    const { run } = locateRun(sql, id);
    for (const { digest } of sql.blobsOfRun.all(run)) dropBlob(sql, run, String(digest));
    for (const remove of [sql.dropLabels, sql.dropSnapshot, sql.dropDeltas]) remove.run(run);
    sql.dropRows.run(run, run);
    sql.dropRun.run(run);
    sql.dropJournal.run(escapeText(id));
  }
  return doomed;
}

/** Removes a run's reference to a blob, and the blob itself if no other run refers to it. */
export function dropBlob(sql: Statements, run: number, digest: string): void {
  sql.unreferBlob.run(run, digest);
  if (sql.isBlobKept.get(digest) === undefined) sql.dropBlob.run(digest);
}

export function makeKinship(sql: Statements): Kinship {
  const idsOf = (rows: readonly Row[]) => rows.map(({ run_id }) => unescapeText(String(run_id)));
  return {
    find: runId => describeRun(sql, runId),
    childrenOf: runId => idsOf(sql.children.all(escapeText(runId))),
    continuationsOf: runId => idsOf(sql.continuations.all(escapeText(runId))),
    waiting: () => toWaiting(sql.suspensions.all()),
  };
}

const PART_BYTES = 64 * 1024;

/** A blob that another run has is only referenced. Throws `run-unknown`, and like `assertUnredacted`. */
export function writeBlob(
  sql: Statements,
  runId: string,
  { digest, text, redactions }: { digest: string; text: string; redactions?: number | undefined },
): void {
  const position = locateRun(sql, runId);
  assertUnredacted(runId, position, redactions);
  const { run } = position;
  if (sql.isBlobKept.get(digest) === undefined)
    for (const { start, bytes, sum } of divideBlob(digest, text, PART_BYTES))
      sql.insertBlob.run(digest, start, bytes, sum);
  sql.referBlob.run(run, digest);
}

export function readBytes(
  sql: Statements,
  runId: string,
  digest: string,
  range: { offset: number; length: number },
): Uint8Array | undefined {
  if (sql.hasBlob.get(escapeText(runId), digest) === undefined) return undefined;
  const { offset, length } = range;
  const parts = sql.blobParts.all(digest, startOfPart(offset, PART_BYTES), offset + length);
  return joinParts(parts, { runId, digest }, { offset, length, size: PART_BYTES });
}

/** Returns the rows of the runs that may be work, longest untouched first. Writes nothing. */
export function findCandidates(sql: Statements, { now, isDead }: WorkRequest): Row[] {
  const processes = isDead === undefined ? [] : sql.processes.all(now);
  const dead = processes.flatMap(({ process, owner }) => (hasDeadOwner(owner, isDead) ? [process] : []));
  return sql.candidates.all(now, now, now, JSON.stringify(dead));
}

/** Returns the records of those candidates that are work, up to the limit. */
export function chooseWork(sql: Statements, candidates: readonly Row[], request: WorkRequest): RunRecord[] {
  const taken: RunRecord[] = [];
  for (const { run_id } of candidates) {
    if (taken.length >= request.limit) break;
    const row = sql.run.get(String(run_id));
    if (row === undefined) continue;
    const [record] = toRecords([row], { onDamaged: error => request.onDamaged?.(error) });
    if (record === undefined) continue;
    const reservedUntil = row.reserved_until === null ? undefined : Number(row.reserved_until);
    if (isWork({ ...record, lease: toLease(row), reservedUntil }, request)) taken.push(record);
  }
  return taken;
}

/** Reserves those of the candidates that are work still, up to the limit, and returns their records. */
export function reserveRuns(sql: Statements, candidates: readonly Row[], request: WorkRequest): RunRecord[] {
  const taken = chooseWork(sql, candidates, request);
  for (const { runId } of taken) sql.reserve.run(request.now + request.reserveMs, escapeText(runId));
  return taken;
}
