import type { Call } from '../machines/context.ts';
import { type ChartState, next } from '../machines/step.ts';
import { EngineError } from '../protocol/error.ts';
import type { ChartEvent, RunEvent } from '../protocol/event.ts';
import type { Store } from '../protocol/store.ts';
import type { Host } from './host.ts';
import { beginFold, foldEntry, hasEnded, type LoadedRun, statusOf } from './load-run.ts';
import { readFromStart } from './read-from-start.ts';

/**
 * Begins a run, in one commit, whose journal is that of `runId` up to entry `at`, without its claims and
 * late evidence. Nobody drives it. It continues what `runId` continues.
 *
 * Whatever a batch of `runId` had started and not settled at that entry is in doubt in the fork, also what
 * could be run again: the other run may have done it, or may yet. Such a call keeps its idempotency key.
 *
 * Throws `input-invalid` when `at` is not an entry of the run, `refused` for a run that came from another
 * store, `run-unknown`.
 */
export async function forkRun(
  { store, host }: { store: Store; host: Host },
  runId: string,
  at: number,
): Promise<{ runId: string; loaded: LoadedRun }> {
  const entries = await readFromStart(store, runId, 'Fork');
  assertEntry(at, entries.length, runId);
  const started = { ...entries[0].event, runId: host.newId('run'), forkOf: { runId, at } };
  const copied = entries.slice(1, at).filter(({ event }) => !isBookkeeping(event));
  const before = copied.reduce((state, entry) => foldEntry(state, entry, runId), beginFold(started));
  const { state, doubts } = doubtStartedCalls(before, runId, at);
  const events = [...copied.map(({ event }) => event), ...doubts];
  const { seq } = await store.create(started, undefined, { events, status: statusOf(state) });
  return { runId: started.runId, loaded: { state, seq, snapshotSeq: 0 } };
}

function assertEntry(at: number, last: number, runId: string): void {
  if (Number.isInteger(at) && at >= 1 && at <= last) return;
  throw new EngineError(
    'input-invalid',
    `Expected an entry of run ${runId} to fork it at, a whole number from 1 to ${last}; got ${at}.`,
    { runId, first: 1, last },
  );
}

function isBookkeeping({ type }: RunEvent): boolean {
  return type === 'run.claimed' || type === 'tool.late' || type === 'run.noted';
}

/**
 * The events carry the time of the last entry that was copied: what passed since then in the other run
 * is no activity of this one.
 */
function doubtStartedCalls(state: ChartState, runId: string, at: number) {
  const { calls, now, generation } = state.context;
  const started = hasEnded(state) ? [] : calls.filter(isUnderWay);
  const reason = `run ${runId}, of which this is a fork at entry ${at}, had started it and recorded no outcome`;
  const doubts: ChartEvent[] = [
    ...started.filter(({ status }) => status === 'queued').map(call => startAgain(call, now, generation)),
    ...started.map(({ callId }) => ({ type: 'tool.doubted', at: now, generation, callId, reason }) as const),
  ];
  return { state: doubts.reduce(takeEvent, state), doubts };
}

/** Started, not settled, and owed by a batch: `queued` after an interruption, or after a person's word to retry. */
function isUnderWay({ attempt, status }: Call): boolean {
  return attempt > 0 && (status === 'queued' || status === 'running' || status === 'reconciling');
}

/** The chart doubts only what runs: the call gets a start that touches nothing. */
function startAgain({ callId, attempt, key = '' }: Call, at: number, generation: number): ChartEvent {
  return { type: 'tool.started', at, generation, callId, attempt: attempt + 1, key };
}

function takeEvent(state: ChartState, event: ChartEvent): ChartState {
  const step = next(state, event);
  if (step.handled) return step.state;
  throw new Error(`The chart does not take ${event.type} in ${JSON.stringify(state.value)}.`);
}
