import type { RunRecord, WorkRequest } from '../../protocol/store.ts';
import { escapeText, hasDeadOwner, type Row, toLease, toRecords } from '../sql/rows.ts';
import { isWork } from '../work/is-work.ts';
import type { Statements } from './statements.ts';

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
