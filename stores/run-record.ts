import { hashOf } from '../protocol/content/digest.ts';
import { EngineError } from '../protocol/error.ts';
import type { RunEvent, RunStarted } from '../protocol/event.ts';
import { omitUndefined } from '../protocol/json.ts';
import { type Labels, titleOf } from '../protocol/listing/label.ts';
import {
  type AppendGuard,
  type AppendResult,
  type CopySource,
  changedRun,
  changedThread,
  isOpen,
  type JournalRest,
  type Progress,
  type Redacted,
  type RedactOptions,
  type RunLink,
  type RunRecord,
  type RunStatus,
  type Standing,
  type Store,
  type ThreadPlace,
} from '../protocol/store.ts';
import { describeDamage, lostEntries } from './journal-text.ts';

export const NO_REST: JournalRest = { events: [], status: 'running' };

export function missingRun(runId: string): EngineError {
  return new EngineError(
    'run-unknown',
    `This store has no run with the id "${runId}". List its runs with \`agent.store.list()\`, or on the command line with \`agentchart runs\`.`,
    { runId },
  );
}

/** Returns the error for a run that a store in memory does not have because it has none at all. */
export function missingInEmpty(runId: string): EngineError {
  return new EngineError(
    'run-unknown',
    `This memory store has no run with the id "${runId}": it was created in this process and has no runs. Runs of other processes are not in it. To share runs between processes, use sqlite('FILE').`,
    { runId },
  );
}

export function existingRun(runId: string): EngineError {
  return new EngineError(
    'run-exists',
    `A run with the id "${runId}" already exists. Open it, or start one with a new id.`,
    { runId },
  );
}

/**
 * Returns why an append to a run at this place is not made; `undefined` if it is. Throws `journal-damaged` if entries
 * that its writer knows are missing, and `refused` if it would reopen a run that has ended: the engine tries that only
 * with a run that was migrated, whose journal does not say that it has ended.
 */
export function refuseAppend(
  runId: string,
  { seq, epoch, status, redactions }: Pick<RunRecord, 'seq' | 'epoch' | 'status' | 'redactions'>,
  guard: AppendGuard,
  { events, standing }: { events: readonly RunEvent[]; standing: Standing },
): Exclude<AppendResult, { type: 'appended' }> | undefined {
  if ('epoch' in guard && guard.epoch !== epoch) return { type: 'superseded' };
  if (guard.after > seq) throw lostEntries(runId, seq, guard.after);
  if (guard.after !== seq || (guard.redactions ?? 0) !== redactions) return { type: 'conflict' };
  if (reopens(status, events, standing.status)) throw endedRun(runId, status);
  return undefined;
}

/** Throws an error of `isChangedRun` if the run is gone or was redacted another number of times than `known`. */
export function assertUnredacted(
  runId: string,
  run: Pick<CopySource, 'redactions'> | undefined,
  known: number | undefined,
): void {
  if (known !== undefined && run?.redactions !== known) throw changedRun(runId);
}

export function reopens(stored: RunStatus, events: readonly unknown[], status: RunStatus): boolean {
  return events.length > 0 && !isOpen({ status: stored }) && isOpen({ status });
}

export function endedRun(runId: string, status: RunStatus): EngineError {
  const message = `Run "${runId}" has ended and takes no further events. If it was migrated, its last note names its successor: use that run.`;
  return new EngineError('refused', message, { runId, status });
}

export function closedStore(): EngineError {
  return new EngineError('store-unavailable', 'The store is closed. Open it again to use it.');
}

/** Oldest first, with the run itself. Throws `run-unknown` for a gap, `journal-damaged` for a circle. */
export function followChain(runId: string, get: (runId: string) => RunLink | undefined): RunLink[] {
  const chain: RunLink[] = [];
  const seen = new Set<string>();
  for (let next: string | undefined = runId; next !== undefined; ) {
    if (seen.has(next)) throw describeDamage(next, 1, 'continues a run that continues this one');
    seen.add(next);
    const record = get(next);
    if (record === undefined) throw missingRun(next);
    chain.push(record);
    next = record.continues;
  }
  return chain.reverse();
}

export function countByStatus(counts: readonly Record<string, unknown>[]): Record<RunStatus, number> {
  const found = { running: 0, waiting: 0, finished: 0, failed: 0, cancelled: 0 };
  for (const { status, count } of counts) found[status as RunStatus] += Number(count);
  return found;
}

export function describeStart(event: RunStarted) {
  const { runId, at, agent, chart, labels = {}, thread, parent, forkOf, continues } = event;
  return {
    runId,
    agent: agent.name,
    title: titleOf(event),
    labels: { ...labels },
    chart,
    createdAt: at,
    ...omitUndefined({ agentVersion: agent.version, thread, parent, forkOf, continues }),
  };
}

/** What all runs of a thread have in common, as 64 hex digits; `undefined` for a run outside threads. */
export function threadKeyOf({
  thread,
  labels = {},
}: {
  thread?: string;
  labels?: Labels;
}): string | undefined {
  return thread === undefined ? undefined : hashOf([thread, { ...labels }]);
}

/** The latest run of a thread as stores read it. */
export type LatestRun = Required<Pick<RunRecord, 'runId' | 'status' | 'place'>>;

/** The place after the latest run of the thread. Throws `changedThread` if it has not ended, or is not `after`. */
function placeAfter(
  thread: string,
  latest: LatestRun | undefined,
  after: string | null | undefined = latest?.runId ?? null,
): number {
  if (latest === undefined ? after === null : latest.runId === after && !isOpen(latest))
    return (latest?.place ?? 0) + 1;
  throw changedThread(thread, latest?.runId ?? null);
}

/**
 * The place that a new run takes in its thread. `free` takes it from a run, and returns it; `latest` finds the latest
 * run. Throws `changedThread`.
 */
export function takePlace(
  { thread }: { thread?: string | undefined },
  place: ThreadPlace | undefined,
  { latest, free }: { latest(): LatestRun | undefined; free(runId: string): number | undefined },
): number | undefined {
  if (thread === undefined || place === undefined) return undefined;
  return 'of' in place ? free(place.of) : placeAfter(thread, latest(), place.after);
}

export function unknownProgress(status: RunStatus): Progress {
  return { state: status, turns: 0, tokens: 0, cost: 0, activeMs: 0 };
}

/** Implements `Store.redact` for any store. Loads the engine on use, because a redaction folds the journal. */
export async function redactIn(store: Store, runId: string, options: RedactOptions): Promise<Redacted> {
  const { redactRun } = await import('../engine/journal/redaction/redact-run.ts');
  return await redactRun(store, runId, options);
}
