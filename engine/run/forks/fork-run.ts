// engine/run/forks: a new run from an entry of another one, with changes, and with recorded results if
// wanted.

import type { Call } from '../../../machines/context.ts';
import { type ChartState, next } from '../../../machines/step.ts';
import type { Prices } from '../../../protocol/config.ts';
import { EngineError } from '../../../protocol/error.ts';
import type { ChartEvent, RunStarted } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { countRedactions } from '../../../protocol/redaction.ts';
import type { Store } from '../../../protocol/store.ts';
import type { Host } from '../../driver/host.ts';
import {
  beginFold,
  foldEntry,
  hasEnded,
  isAtRest,
  isOfChart,
  type LoadedRun,
  standingOf,
  statusOf,
} from '../../journal/load-run.ts';
import { readFromStart, type WholeJournal } from '../../journal/read-journal.ts';
import { waitsForOriginal } from '../../sub-agents/child-runs.ts';
import { assertReadable } from '../../versions/version-mismatch.ts';
import { findFault, sendMessage, stampCommand } from '../command.ts';
import type { CommandOptions } from '../run-command.ts';
import { listRecordedCalls } from './recorded-calls.ts';

/**
 * How a fork begins. `message`: appended to it. `paused`: the fork rests after entry `at`, before anything follows from
 * it, also where the original finished. People can then edit the reply, set parameters or decide, and continue.
 */
export type ForkOptions = CommandOptions & {
  message?: string | readonly Item[] | undefined;
  paused?: boolean | undefined;
  /**
   * The fork plays the results of the original for equal calls (same tool, same input) and executes no tool. A call
   * without such a result is in doubt; a decision to retry executes it. Approvals still ask.
   */
  replayTools?: boolean | undefined;
};

/**
 * The model of a fork, the only one that drives it. `launch`: the model string that a later command creates its agent
 * with. `prices`: those of its agent, which may price models that the original's do not.
 */
export type ForkModel = {
  launch?: string | undefined;
  provider: string;
  model: string;
  prices?: Prices | undefined;
};

/**
 * Creates a run, in one commit, that starts with a copy of the journal of `runId` up to entry `at`, without its
 * claims and late outcomes. No process drives it yet. It continues the same run as `runId` does.
 *
 * A call that was started but not settled at that entry is in doubt in the fork, regardless of its `sideEffect`: the
 * original run may have performed it, or may still do so. The call keeps its idempotency key. The fork of a
 * sub-agent's run has no parent. The message, if given, is the fork's last entry and part of the same commit.
 *
 * `options.runId` is the id of the new run, by default a random one. `decided`: the calls that a command decides next,
 * which therefore do not take their results from the original. Throws `run-exists` if it is taken;
 * `input-invalid` if `at` is not an entry of the run or the message is invalid; `run-ended` for a message to
 * a fork that has ended; `refused` for a run that came from another store, and if the input of a call that
 * still has to run was redacted; `run-unknown`.
 */
export async function forkRun(
  { store, host }: { store: Store; host: Host },
  runId: string,
  at: number,
  {
    message,
    by,
    paused = false,
    replayTools = false,
    model,
    decided = [],
    runId: forkId = host.newId('run'),
  }: ForkOptions & { runId?: string; model?: ForkModel | undefined; decided?: readonly string[] } = {},
): Promise<{ runId: string; loaded: LoadedRun }> {
  const entries = await readFromStart(store, runId, 'Fork');
  assertReadable(runId, entries[0].event);
  assertEntry(at, entries.length, runId);
  const { parent: _, requestId: __, ...original } = entries[0].event;
  const { playsResultsOf: ___, ...config } = original.config;
  const same = withModel(
    {
      ...original,
      runId: forkId,
      forkOf: { runId, at },
      config: { ...config, ...(replayTools && { playsResultsOf: runId }) },
    },
    model,
  );
  const folded = entries
    .slice(1, at)
    .reduce((state, entry) => foldEntry(state, entry, runId), beginFold(same));
  assertRunnable(folded, runId);
  const all = entries.slice(1, at).flatMap(({ event }) => (isOfChart(event) ? [event] : []));
  const { started, copied } = paused ? holdLast(same, all) : { started: same, copied: all };
  const end = paused ? copied.reduce(applyEvent, beginFold(started)) : folded;
  const { state: doubted, events: begun } = beginDoubting(
    { begun: beginFold(started), copied, end },
    `run ${runId}, forked here at entry ${at}, had started it and recorded no outcome`,
    replayTools ? playOwn(runId, entries, decided) : undefined,
  );
  const messages = message === undefined ? [] : [makeMessage(message, by, host)];
  if (messages.length > 0 && hasEnded(doubted)) throw describeEnded(entries, at, doubted);
  const state = messages.reduce(applyEvent, doubted);
  const events = [...begun, ...messages];
  const wake = waitsForOriginal(state.context) ? { wakeAt: host.now() } : {};
  const rest = { events, ...standingOf(state), ...wake };
  const { seq } = await store.create(started, undefined, rest);
  return { runId: started.runId, loaded: { state, seq, snapshotSeq: 0 } };
}

/** The fork continues with another model: in every place of the list, since the copied entries may name any. */
function withModel(started: RunStarted, named: ForkModel | undefined): RunStarted {
  if (named === undefined) return started;
  const { launch: text, provider, model } = named;
  const { model: _, ...launch } = started.launch ?? {};
  const models = started.config.models.map(() => ({ provider, model }));
  const prices = named.prices && { prices: { ...started.config.prices, ...named.prices } };
  return {
    ...started,
    ...((started.launch !== undefined || text !== undefined) && {
      launch: { ...launch, ...omitUndefined({ model: text }) },
    }),
    config: { ...started.config, models, forkModel: { provider, model }, ...prices },
  };
}

/** Settles a call that the copied entries had started with its result in the rest of the journal, if it has one. */
type Settle = (call: Call, at: number, generation: number) => ChartEvent | undefined;

function playOwn(runId: string, entries: WholeJournal, decided: readonly string[]): Settle {
  const recorded = new Map(listRecordedCalls(entries).map(call => [call.callId, call]));
  return ({ callId, digest }, at, generation) => {
    const known = recorded.get(callId);
    if (known?.result === undefined || known.digest !== digest || decided.includes(callId)) return undefined;
    const { seq, ...result } = known.result;
    if (countRedactions(result.output) > 0) return undefined;
    return { type: 'tool.settled', at, generation, callId, ...result, played: { runId, seq } };
  };
}

/** The same events with a pause before the last one, so that the run rests where that one leads. */
function holdLast(started: RunStarted, events: readonly ChartEvent[]) {
  const last = events.at(-1);
  const held = { ...started, config: { ...started.config, holdsAtEnd: true } };
  if (last === undefined) return { started: { ...held, paused: true }, copied: [] };
  const earlier = events.slice(0, -1);
  const before = earlier.reduce(applyEvent, beginFold(held));
  if (last.type === 'run.unpaused' || last.type === 'step.requested')
    return { started: held, copied: earlier };
  if (before.context.paused || last.type === 'pause.requested') return { started: held, copied: events };
  const pause = { type: 'pause.requested', at: last.at } as const;
  const { generation } = applyEvent(before, pause).context;
  const again = 'generation' in last ? { ...last, generation } : last;
  return { started: held, copied: [...earlier, pause, again] };
}

function assertEntry(at: number, last: number, runId: string): void {
  if (Number.isInteger(at) && at >= 1 && at <= last) return;
  throw new EngineError(
    'input-invalid',
    `Expected the seq of an entry of run ${runId} to fork at, an integer from 1 to ${last}; got ${at}.`,
    { runId, first: 1, last },
  );
}

function assertRunnable(state: ChartState, runId: string): void {
  if (!hasEnded(state) && countRedactions(state.context.runContext ?? null) > 0) {
    throw new EngineError(
      'refused',
      `The run context of run ${runId} was redacted, and the fork's tools would need it. Fork at the entry that ends the run, or start a run that continues it.`,
      { runId },
    );
  }
  const open = hasEnded(state) ? [] : state.context.calls.filter(({ status }) => status !== 'settled');
  const call = open.find(({ input }) => countRedactions(input) > 0);
  if (call === undefined) return;
  throw new EngineError(
    'refused',
    `Call ${call.callId} of run ${runId} still has to run at that entry, but its input was redacted. Fork after the entry of its result.`,
    { runId, callId: call.callId },
  );
}

function makeMessage(message: string | readonly Item[], by: string | undefined, host: Host): ChartEvent {
  const command = sendMessage(message, omitUndefined({ by }), host);
  const event = stampCommand(command, host.now());
  const fault = findFault(event);
  if (fault !== null) throw new EngineError('input-invalid', `The message is invalid. ${fault.message}`);
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
    `Run ${runId} has ended (${statusOf(ended)}) at entry ${at}, so the fork cannot accept a message. Fork it at ` +
      `entry ${last} or earlier, or start a run that continues it (--continues ${runId}).`,
    { runId, last },
  );
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

/**
 * The events that put started, unsettled calls in doubt, and the state after them. Their time is that of the last
 * entry: time that passed in the original run since then is not active time of the fork.
 */
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

function applyEvent(state: ChartState, event: ChartEvent): ChartState {
  const step = next(state, event);
  if (step.handled) return step.state;
  throw new Error(`The chart does not accept ${event.type} in state ${JSON.stringify(state.value)}.`);
}
