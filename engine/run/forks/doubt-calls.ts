import type { Call } from '../../../machines/context.ts';
import { hasEnded, isAtRest } from '../../../machines/status.ts';
import { type ChartState, next } from '../../../machines/step.ts';
import type { ChartEvent } from '../../../protocol/event.ts';
import { countRedactions } from '../../../protocol/redaction.ts';
import type { WholeJournal } from '../../journal/read-journal.ts';
import { listRecordedCalls } from '../../journal/recorded-calls.ts';

/* Calls that a copied journal had started: in the copy they are in doubt, or have their recorded results. */

/** Settles a call that the copied entries had started with its result in the rest of the journal, if it has one. */
type Settle = (call: Call, at: number, generation: number) => ChartEvent | undefined;

/** Settles calls of a fork with the results that the journal of its original has for them, except `decided` ones. */
export function playOwn(runId: string, entries: WholeJournal, decided: readonly string[]): Settle {
  const recorded = new Map(listRecordedCalls(entries).map(call => [call.callId, call]));
  return ({ callId, digest }, at, generation) => {
    const known = recorded.get(callId);
    if (known?.result === undefined || known.digest !== digest || decided.includes(callId)) return undefined;
    const { seq, ...result } = known.result;
    if (countRedactions(result.output) > 0) return undefined;
    return { type: 'tool.settled', at, generation, callId, ...result, played: { runId, seq } };
  };
}

/**
 * The copied events, followed by events that put the unsettled calls in doubt. The chart accepts those only during a
 * batch; if the run was quarantined during one, they are inserted before that. A decision to retry a call that has
 * not started again is left out, so that the call stays in doubt: the decision was about the original run.
 */
export function beginDoubting(
  { begun, copied, end }: { begun: ChartState; copied: readonly ChartEvent[]; end: ChartState },
  reason: string,
  settle?: Settle,
) {
  const retried = end.context.calls.filter(isReadyToRetry).map(({ callId }) => callId);
  const events = copied.filter((event, index) => !isLastRetry(retried, copied, event, index));
  const isMidBatch = isAtRest(end) && end.context.batch > 0;
  const index = isMidBatch ? events.findLastIndex(({ type }) => type === 'run.quarantined') : events.length;
  const head = events.slice(0, index);
  const { state, doubts } = doubtStartedCalls(head.reduce(applyEvent, begun), reason, settle);
  const tail = events.slice(index).map((event): ChartEvent => {
    const isAccepted = event.type !== 'run.quarantined' || state.value === 'executingTools';
    return isAccepted ? event : { type: 'pause.requested', at: event.at };
  });
  return { state: tail.reduce(applyEvent, state), events: [...head, ...doubts, ...tail] };
}

function isLastRetry(
  retried: readonly string[],
  events: readonly ChartEvent[],
  event: ChartEvent,
  index: number,
): boolean {
  if (event.type !== 'doubt.resolved' || !retried.includes(event.callId)) return false;
  return events.findLastIndex(later => later.type === event.type && later.callId === event.callId) === index;
}

/** Their time is that of the last entry: what passed in the original run since then is no active time of the fork. */
function doubtStartedCalls(
  state: ChartState,
  reason: string,
  settle: Settle = () => undefined,
): { state: ChartState; doubts: ChartEvent[] } {
  const { calls, now, generation } = state.context;
  const started = hasEnded(state) ? [] : calls.filter(isInProgress);
  const doubts: ChartEvent[] = [
    ...started.filter(({ status }) => status === 'queued').map(call => startAgain(call, now, generation)),
    ...started.map(
      (call): ChartEvent =>
        settle(call, now, generation) ?? {
          type: 'tool.doubted',
          at: now,
          generation,
          callId: call.callId,
          reason,
        },
    ),
  ];
  return { state: doubts.reduce(applyEvent, state), doubts };
}

/** Whether a call of a run, as it stands at an entry, is in doubt in a fork from that entry. */
export function isDoubtedInFork(call: Call): boolean {
  return call.status === 'doubted' || isInProgress(call) || isReadyToRetry(call);
}

/** Started but not settled in a batch; `queued` after an interruption or a decision to retry. */
function isInProgress({ attempt, status }: Call): boolean {
  return attempt > 0 && (status === 'queued' || status === 'running' || status === 'reconciling');
}

function isReadyToRetry({ attempt, status }: Call): boolean {
  return attempt > 0 && status === 'ready';
}

/** The chart puts only running calls in doubt, so a queued call is marked as started first. */
function startAgain({ callId, attempt, key = '' }: Call, at: number, generation: number): ChartEvent {
  return { type: 'tool.started', at, generation, callId, attempt: attempt + 1, key };
}

/** The state after an event that the chart must accept. */
export function applyEvent(state: ChartState, event: ChartEvent): ChartState {
  const step = next(state, event);
  if (step.handled) return step.state;
  throw new Error(`The chart does not accept ${event.type} in state ${JSON.stringify(state.value)}.`);
}
