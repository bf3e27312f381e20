// stores/sqlite: the operations of `sqlite()`, one group of statements a file. `statements.ts` holds the SQL,
// `database/` the connection, its commits and the schema.

import type { RunEvent } from '../../protocol/event.ts';
import { changedRun } from '../../protocol/listing/work.ts';
import type { ClaimRequest, Page, Standing, StandingChange } from '../../protocol/store.ts';
import { describeDamage } from '../journal-text.ts';
import { grantLease } from '../lease.ts';
import { takePage, WHOLE } from '../page.ts';
import { sumOfEntry } from '../sql/checksum.ts';
import { escapeText } from '../sql/rows.ts';
import { nextWakeAt } from '../work/is-work.ts';
import { locateRun, type Position } from './locate-run.ts';
import type { Statements } from './statements.ts';

/** The approximate maximum size of one row: what a reader of one entry has to read at most. */
const ROW: Page = { ...WHOLE, chars: 64 * 1024 };

/**
 * Appends `events` at `position` and updates the run's record; `texts` are their JSON, in the same order. Returns the
 * position after them. Throws `journal-damaged` if an entry is already there.
 */
export function writeEvents(
  sql: Statements,
  runId: string,
  position: Position,
  events: readonly RunEvent[],
  texts: readonly string[],
  standing: Partial<Standing> = {},
): Position {
  const { status = position.status, stateHash, progress } = standing;
  const { run } = position;
  const last = events.at(-1);
  const progressText = progress === undefined ? null : JSON.stringify(progress);
  if (last === undefined) {
    sql.setStanding.run(progressText, status, run);
    return { ...position, status };
  }
  if (position.hasRowsPastEnd) {
    const next = position.seq + 1;
    throw describeDamage(runId, next, 'already exists, after the recorded end of the journal');
  }
  const end = writeRows(sql, position, texts, stateHash);
  if (status === position.status) sql.advance.run(end.seq, last.at, end.sum, progressText, run);
  else sql.advanceTo.run(end.seq, last.at, end.sum, progressText, status, run);
  return { ...position, ...end, status };
}

/** Records when the run and its parent have to be driven again, after an append at `now`, in ms since the epoch. */
export function writeWakeUps(
  sql: Statements,
  { run, wakeAt: recorded }: Position,
  { wakeAt, wakes }: { wakeAt?: number | undefined; wakes?: string | undefined },
  now: number,
): void {
  const next = nextWakeAt(recorded, wakeAt, now);
  if (next !== recorded) sql.setWakeAt.run(next ?? null, run);
  if (wakes !== undefined) sql.wake.run(now, now, escapeText(wakes));
}

/** Changes the run's record at `now`, in ms since the epoch. Throws `refused` if the run is not as expected. */
export function changeStanding(
  sql: Statements,
  { runId, after, epoch, status, wakeAt }: StandingChange,
  now: number,
): void {
  const position = locateRun(sql, runId);
  if (position.seq !== after || position.epoch !== epoch) throw changedRun(runId);
  sql.setStanding.run(null, status, position.run);
  writeWakeUps(sql, position, { wakeAt }, now);
}

/** Writes one row, or several for a long append. `stateHash` belongs to the last entry. */
function writeRows(
  sql: Statements,
  { run, seq, sum }: Position,
  texts: readonly string[],
  stateHash: string | undefined,
): { seq: number; sum: string } {
  const end = { seq, sum };
  const last = seq + texts.length;
  for (const left = texts.values(); ; ) {
    const row = takePage(left, ROW, ({ length }) => length);
    if (row.length === 0) return end;
    let sums = '';
    let hash: string | undefined;
    for (const text of row) {
      end.seq += 1;
      if (end.seq === last) hash = stateHash;
      end.sum = sumOfEntry(end.sum, text, hash);
      sums += end.sum;
    }
    sql.insertRow.run(run, end.seq, hash ?? null, sums, row.join('\n'));
  }
}

/** Writes the lease of a granted claim. The caller appends `run.claimed` in the same commit. */
export function writeLease(sql: Statements, run: number, request: ClaimRequest, epoch: number): void {
  const { owner, until } = grantLease(request);
  sql.setLease.run(epoch, JSON.stringify(owner), until, request.now, run);
}
