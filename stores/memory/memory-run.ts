// stores/memory: the parts of `memory()`: its runs, their feed, kinship and texts in progress.

import type { RunStarted } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { titleOf } from '../../protocol/listing/label.ts';
import { changedRun } from '../../protocol/listing/work.ts';
import type { Progress, RunRecord, Standing, StandingChange, WorkRequest } from '../../protocol/store.ts';
import type { Lease } from '../lease.ts';
import { unknownProgress } from '../run-record.ts';
import { earlier, isWork, nextWakeAt } from '../work/is-work.ts';

/** A run in memory. */
export type Run = {
  record: Omit<RunRecord, 'seq' | 'epoch' | 'owner' | 'leaseUntil' | 'redactions' | keyof Progress>;
  progress?: Progress | undefined;
  epoch: number;
  redactions: number;
  lease?: Lease | undefined;
  /** Until when `takeWork` does not return the run again, in ms since the epoch. */
  reservedUntil?: number | undefined;
  snapshot?: { seq: number; state: string };
  /** The journal begins after this entry; above 0 only for adopted runs. */
  base: number;
  journal: string[];
  /** State hashes by the seq of their entry. */
  stateHashes: Map<number, string>;
  /** UTF-8 by digest; a fork shares the bytes. */
  blobs: Map<string, Uint8Array>;
};

/** Returns the record of a new run. */
export function beginRecord(
  { runId, at, agent, chart, labels = {}, continues, parent, forkOf, ...event }: RunStarted,
  { status, wakeAt }: Pick<Standing, 'status' | 'wakeAt'>,
): Run['record'] {
  return {
    runId,
    agent: agent.name,
    labels: { ...labels },
    status,
    chart: { ...chart },
    createdAt: at,
    updatedAt: at,
    title: titleOf(event),
    ...omitUndefined({
      agentVersion: agent.version,
      wakeAt,
      continues,
      parent: parent && { ...parent },
      forkOf: forkOf && { ...forkOf },
    }),
  };
}

/** Returns a run without entries, which begins after the entry `base`. */
export function makeRun({
  record,
  progress,
  base = 0,
}: Pick<Run, 'record'> & { progress: Progress | undefined; base?: number }): Run {
  const nothing = { journal: [], blobs: new Map(), stateHashes: new Map() };
  return { record, progress: progress && { ...progress }, epoch: 0, redactions: 0, base, ...nothing };
}

/** The `seq` of the last entry. */
export function lengthOf({ base, journal }: Run): number {
  return base + journal.length;
}

/** Returns the run if it is as the change expects it. Throws `refused`. */
export function expectRun(run: Run, { runId, after, epoch }: StandingChange): Run {
  if (lengthOf(run) !== after || run.epoch !== epoch) throw changedRun(runId);
  return run;
}

/** Returns the runs that may be taken, longest untouched first, up to the limit. */
export function findWork(runs: Iterable<Run>, request: WorkRequest): Run[] {
  return [...runs]
    .filter(run => isWork({ ...run.record, lease: run.lease, reservedUntil: run.reservedUntil }, request))
    .sort((one, other) => one.record.updatedAt - other.record.updatedAt)
    .slice(0, Math.max(0, request.limit));
}

/** Records what an append says about the run. `at`: the time of its last event, if there is one. */
export function recordStanding(
  run: Run,
  { status, progress, stateHash, wakeAt }: Standing,
  at: number | undefined,
): void {
  const { record } = run;
  record.status = status;
  const next = nextWakeAt(record.wakeAt, wakeAt, at ?? 0);
  if (next === undefined && record.wakeAt !== undefined) delete record.wakeAt;
  setWakeAt(run, next);
  if (progress !== undefined) run.progress = { ...progress };
  if (stateHash !== undefined && at !== undefined) run.stateHashes.set(lengthOf(run), stateHash);
}

/** Replaces entries of the journal, with the hashes of the states after them. */
export function replaceEntries(
  { journal, stateHashes, base }: Run,
  entries: readonly { seq: number; text: string; stateHash?: string | undefined }[],
): void {
  for (const { seq, text, stateHash } of entries) {
    journal[seq - base - 1] = text;
    if (stateHash !== undefined) stateHashes.set(seq, stateHash);
  }
}

/** Schedules a wake-up at `at`, unless an earlier one is set. */
export function wake(run: Run, at: number | undefined): void {
  setWakeAt(run, earlier(run.record.wakeAt, at));
}

function setWakeAt(run: Run, wakeAt: number | undefined): void {
  if (wakeAt !== undefined) run.record.wakeAt = wakeAt;
}

/** Returns the record of the run. */
export function describe(run: Run): RunRecord {
  const { record, progress, epoch, redactions } = run;
  const lease = run.lease && { owner: { ...run.lease.owner }, leaseUntil: run.lease.until };
  const shown = progress ?? unknownProgress(record.status);
  return { ...structuredClone({ ...record, ...shown }), seq: lengthOf(run), epoch, redactions, ...lease };
}
