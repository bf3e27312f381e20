import type { Call } from '../../machines/context.ts';
import { type ChartState, next } from '../../machines/step.ts';
import { EngineError } from '../../protocol/error.ts';
import type { ChartEvent, RunEvent } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { countRedactions } from '../../protocol/redaction.ts';
import type { Store } from '../../protocol/store.ts';
import type { Host } from '../driver/host.ts';
import { beginFold, foldEntry, hasEnded, isAtRest, type LoadedRun, statusOf } from '../journal/load-run.ts';
import { readFromStart, type WholeJournal } from '../journal/read-journal.ts';
import { assertReadable } from '../versions/version-mismatch.ts';
import { type CommandOptions, findFault, sendMessage, stampCommand } from './command.ts';

/** What a fork hears first, of whom. */
export type ForkMessage = CommandOptions & { message?: string | readonly Item[] | undefined };

/**
 * Begins a run, in one commit, whose journal is that of `runId` up to entry `at`, without its claims and
 * late evidence. Nobody drives it. It continues what `runId` continues.
 *
 * Whatever a batch of `runId` had started and not settled at that entry is in doubt in the fork, also what
 * could be run again: the other run may have done it, or may yet. Such a call keeps its idempotency key.
 * The fork of a sub-agent's run works for nobody. A message is the fork's last entry: it is never found without it.
 *
 * Throws `input-invalid` when `at` is not an entry of the run or the message none, `run-ended` for a message
 * to a fork that has ended, `refused` for a run that came from another store and for an entry where a call has still to
 * run whose input was redacted, `run-unknown`.
 */
export async function forkRun(
  { store, host }: { store: Store; host: Host },
  runId: string,
  at: number,
  { message, by }: ForkMessage = {},
): Promise<{ runId: string; loaded: LoadedRun }> {
  const entries = await readFromStart(store, runId, 'Fork');
  assertReadable(runId, entries[0].event);
  assertEntry(at, entries.length, runId);
  const { parent: _, ...begins } = entries[0].event;
  const started = { ...begins, runId: host.newId('run'), forkOf: { runId, at } };
  const end = entries
    .slice(1, at)
    .reduce((state, entry) => foldEntry(state, entry, runId), beginFold(started));
  assertRunnable(end, runId);
  const copied = entries.slice(1, at).flatMap(({ event }) => (isOfChart(event) ? [event] : []));
  const { state: doubted, events: begun } = beginDoubting(
    { begun: beginFold(started), copied, end },
    `run ${runId}, of which this is a fork at entry ${at}, had started it and recorded no outcome`,
  );
  const said = message === undefined ? [] : [makeMessage(message, by, host)];
  if (said.length > 0 && hasEnded(doubted)) throw describeEnded(entries, at, doubted);
  const state = said.reduce(takeEvent, doubted);
  const events = [...begun, ...said];
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

function assertRunnable(state: ChartState, runId: string): void {
  const open = hasEnded(state) ? [] : state.context.calls.filter(({ status }) => status !== 'settled');
  const call = open.find(({ input }) => countRedactions(input) > 0);
  if (call === undefined) return;
  throw new EngineError(
    'refused',
    `Call ${call.callId} of run ${runId} has still to run at that entry, and its input was redacted. Fork the run behind its result.`,
    { runId, callId: call.callId },
  );
}

function makeMessage(message: string | readonly Item[], by: string | undefined, host: Host): ChartEvent {
  const command = sendMessage(message, by === undefined ? {} : { by }, host);
  const event = stampCommand(command, host.now());
  const fault = findFault(event);
  if (fault !== null) throw new EngineError('input-invalid', `The message cannot be sent. ${fault.message}`);
  return event;
}

function describeEnded([first, ...rest]: WholeJournal, at: number, ended: ChartState): EngineError {
  const { runId } = first.event;
  let state = beginFold(first.event);
  let last = first.seq;
  for (const entry of rest) {
    state = foldEntry(state, entry, runId);
    if (hasEnded(state)) break;
    last = entry.seq;
  }
  return new EngineError(
    'run-ended',
    `Run ${runId} has ended (${statusOf(ended)}) at entry ${at}, and takes no message there. Fork it at entry ` +
      `${last} or before, or begin a run that continues it (--continues ${runId}).`,
    { runId, last },
  );
}

export function isOfChart(event: RunEvent): event is ChartEvent {
  switch (event.type) {
    case 'run.started':
    case 'run.claimed':
    case 'tool.late':
    case 'run.noted':
    case 'run.redacted':
      return false;
    default:
      return true;
  }
}

/**
 * The copied events, with what was under way behind them in doubt. Only a batch has calls that can be
 * doubted: where the run was paused in the middle of one, they are doubted before that. A call in doubt that
 * somebody wants to be run again, and that has not begun, stays in doubt: that word was for the other run.
 */
export function beginDoubting(
  { begun, copied, end }: { begun: ChartState; copied: readonly ChartEvent[]; end: ChartState },
  reason: string,
) {
  const again = end.context.calls.filter(isReadyAgain).map(({ callId }) => callId);
  const events = copied.filter((event, place) => !isLastRetry(again, copied, event, place));
  const isLeft = isAtRest(end) && end.context.batch > 0;
  const place = isLeft ? events.findLastIndex(({ type }) => type === 'run.quarantined') : events.length;
  const head = events.slice(0, place);
  const { state, doubts } = doubtStartedCalls(head.reduce(takeEvent, begun), reason);
  const tail = events.slice(place).map((event): ChartEvent => {
    const isTaken = event.type !== 'run.quarantined' || state.value === 'executingTools';
    return isTaken ? event : { type: 'pause.requested', at: event.at };
  });
  return { state: tail.reduce(takeEvent, state), events: [...head, ...doubts, ...tail] };
}

function isLastRetry(
  again: readonly string[],
  events: readonly ChartEvent[],
  event: ChartEvent,
  place: number,
): boolean {
  if (event.type !== 'doubt.resolved' || !again.includes(event.callId)) return false;
  return events.findLastIndex(later => later.type === event.type && later.callId === event.callId) === place;
}

/**
 * What puts in doubt whatever a batch had started and not settled, and the state it leads to. The events
 * carry the time of the last entry: what passed since then in the other run is no activity of this one.
 */
function doubtStartedCalls(state: ChartState, reason: string): { state: ChartState; doubts: ChartEvent[] } {
  const { calls, now, generation } = state.context;
  const started = hasEnded(state) ? [] : calls.filter(isUnderWay);
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

function isReadyAgain({ attempt, status }: Call): boolean {
  return attempt > 0 && status === 'ready';
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
