import { qualifiedOf } from '../../../machines/calls.ts';
import type { Call, Context } from '../../../machines/context.ts';
import { hasDuties, peopleIn } from '../../../machines/duties.ts';
import { isOfChart } from '../../../machines/fold.ts';
import { limitsOf, limitsUsage } from '../../../machines/limits.ts';
import { hasEnded, isAtRest } from '../../../machines/status.ts';
import { type ChartState, next } from '../../../machines/step.ts';
import type { Capabilities } from '../../../protocol/adapter.ts';
import type { Prices } from '../../../protocol/config.ts';
import { EngineError } from '../../../protocol/error.ts';
import type { ChartEvent, RunStarted } from '../../../protocol/event.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { countRedactions } from '../../../protocol/redaction.ts';
import { beginFold, foldEntry } from '../../journal/load-run.ts';
import type { WholeJournal } from '../../journal/read-journal.ts';
import { listRecordedCalls } from '../../journal/recorded-calls.ts';
import type { RequestRecord } from '../../log/request-ids.ts';

/**
 * `launch`: the model string for later commands. `prices`: its agent's, which may price models that the original's do not.
 * `usage`: `false` if it never says what its turns used.
 */
export type ForkModel = {
  launch?: string | undefined;
  provider: string;
  model: string;
  prices?: Prices | undefined;
  usage?: Capabilities['usage'];
};

/** What a copy of a journal does differently. `isHeld`: it rests after its last entry, before anything follows from it. */
type CopyOptions = {
  forkId: string;
  at: number;
  isHeld: boolean;
  replayTools: boolean;
  model: ForkModel | undefined;
  request: RequestRecord | undefined;
  /** Calls that do not take their results from the original. */
  decided: readonly string[];
  /** Who forks. */
  by: string | undefined;
};

/** A fork that no store has yet: its first event, the events after it, and the state after them. */
export type Copy = {
  started: RunStarted;
  events: readonly ChartEvent[];
  state: ChartState;
  /** What lets a held copy continue like the original did; `undefined` if the original rested there too. */
  release: Release | undefined;
};

/** `isOwn`: the copy is held by a pause that the original did not have. */
type Release = { isOwn: boolean; type: 'run.unpaused' | 'step.requested' };

/** A fork's beginning: the journal up to entry `at`, without claims and late outcomes. Throws as `forkRun` does. */
export function copyJournal(entries: WholeJournal, options: CopyOptions): Copy {
  const { forkId, at, isHeld, replayTools, model, request, decided, by } = options;
  const { parent: _, requestId: __, asked: ___, by: ____, ...original } = entries[0].event;
  const { runId } = original;
  assertEntry(at, entries.length, runId);
  const { playsResultsOf: _____, ...config } = original.config;
  const same = withModel(
    {
      ...original,
      ...request,
      runId: forkId,
      ...omitUndefined({ by }),
      people: peopleIn(entries[0].event),
      forkOf: { runId, at },
      config: { ...config, ...(replayTools && { playsResultsOf: runId }) },
    },
    model,
  );
  const folded = foldCopied(same, entries, at);
  assertRunnable(folded, runId);
  assertCounted(folded.context, model);
  const all = entries.slice(1, at).flatMap(({ event }) => (isOfChart(event) ? [event] : []));
  const { started, copied } = isHeld ? holdLast(same, all) : { started: same, copied: all };
  const end = isHeld ? copied.reduce(applyEvent, beginFold(started)) : folded;
  const doubting = beginDoubting(
    { begun: beginFold(started), copied, end },
    `run ${runId}, forked here at entry ${at}, had started it and recorded no outcome`,
    replayTools ? playOwn(runId, entries, decided) : undefined,
  );
  const withdrawn = withdrawApprovals(doubting.state);
  const state = withdrawn.reduce(applyEvent, doubting.state);
  const events = [...doubting.events, ...withdrawn];
  return { started, events, state, release: isHeld ? releaseOf(all.at(-1), folded) : undefined };
}

/** Throws `refused` if the copied entries cannot be those of the fork: because of who forks, or of its model's price. */
function foldCopied(same: RunStarted, [{ event: original }, ...rest]: WholeJournal, at: number): ChartState {
  const { runId, config } = original;
  const fold = (started: RunStarted) =>
    rest.slice(0, at - 1).reduce((state, entry) => foldEntry(state, entry, runId), beginFold(started));
  try {
    return fold(same);
  } catch {
    fold(original);
    const why = attempt(() => fold({ ...same, config })) ? OVER_LIMIT : describeStarter(same.by);
    throw new EngineError('refused', `Run ${runId} cannot be forked at entry ${at}: ${why}`, { runId });
  }
}

const OVER_LIMIT =
  "the turns before it count at the price of the fork's model, and reach the limit `cost`. Fork at an earlier entry, or on another model.";

/** Why who forks, a starter of the fork, cannot have its beginning. */
function describeStarter(by: string | undefined): string {
  return by === undefined
    ? 'it has a decision that no one may give who started the run, and it is not known who forks. Fork with `by`.'
    : `it has a decision of ${by} that no one may give who started the run, and who forks is one of them. Fork at an earlier entry, or let someone else fork.`;
}

function attempt(work: () => unknown): boolean {
  try {
    work();
    return true;
  } catch {
    return false;
  }
}

/** A call with duties that has not started, and an answer, need their approvals again: those that they had were about the original's. */
function withdrawApprovals({ context: { calls, review, now } }: ChartState): ChartEvent[] {
  if (review?.approvedBy !== undefined) {
    const { id: reviewId, digest } = review;
    return [{ type: 'review.decided', at: now, reviewId, digest, decision: { type: 'withdraw' } }];
  }
  return calls.flatMap((call): ChartEvent[] => {
    const isApproved = call.status === 'ready' || (call.status === 'gated' && call.approvedBy !== undefined);
    if (!isApproved || !hasDuties(call) || call.attempt > 0) return [];
    const { callId, digest } = call;
    return [{ type: 'call.edited', at: now, callId, digest, call: qualifiedOf(call) }];
  });
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

/** Throws `refused` if a limit on tokens or cost cannot bind in a fork on this model. */
function assertCounted(context: Context, model: ForkModel | undefined): void {
  const limits = limitsOf(context);
  if (model?.usage !== false || !limitsUsage(limits) || context.config.onUnknownUsage === 'estimate') return;
  const limit = limits.tokens === undefined ? 'cost' : 'tokens';
  throw new EngineError(
    'refused',
    `limits.${limit} cannot bind in a fork on the model ${model.provider}:${model.model}, which reports no usage. Fork on a model that does, or fork a run without the limit or with onUnknownUsage: 'estimate'.`,
  );
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

function releaseOf(last: ChartEvent | undefined, { context }: ChartState): Release | undefined {
  if (last?.type === 'run.unpaused' || last?.type === 'step.requested')
    return { isOwn: false, type: last.type };
  return context.paused ? undefined : { isOwn: true, type: 'run.unpaused' };
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
  if (hasEnded(state)) return;
  const { calls, runContext = null } = state.context;
  if (countRedactions(runContext) > 0)
    throw new EngineError(
      'refused',
      `The run context of run ${runId} was redacted, and the fork's tools would need it. Fork at the entry that ends the run, or start a run that continues it.`,
      { runId },
    );
  const call = calls.find(({ status, input }) => status !== 'settled' && countRedactions(input) > 0);
  if (call === undefined) return;
  throw new EngineError(
    'refused',
    `Call ${call.callId} of run ${runId} still has to run at that entry, but its input was redacted. Fork after the entry of its result.`,
    { runId, callId: call.callId },
  );
}

/* Calls that a copied journal had started: in the copy they are in doubt, or have their recorded results. */

/** Settles a call that the copied entries had started with its result in the rest of the journal, if it has one. */
type Settle = (call: Call, at: number, generation: number) => ChartEvent | undefined;

/** Settles calls of a fork with the results that the journal of its original has for them, except `decided` ones. */
function playOwn(runId: string, entries: WholeJournal, decided: readonly string[]): Settle {
  const recorded = new Map(listRecordedCalls(entries).map(call => [call.callId, call]));
  return ({ callId, digest }, at, generation) => {
    const known = recorded.get(callId);
    if (known?.result === undefined || known.digest !== digest || decided.includes(callId)) return undefined;
    const { seq, at: _, work, ...result } = known.result;
    if (work !== undefined) {
      const { childRunId, held: background } = work;
      const { shown } = result;
      return {
        type: 'tool.suspended',
        at,
        generation,
        callId,
        childRunId,
        background,
        ...omitUndefined({ shown }),
      };
    }
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
  const isResolved = (event: ChartEvent, callId: string) =>
    event.type === 'doubt.resolved' && event.callId === callId;
  const lastRetries = retried.map(callId => copied.findLastIndex(event => isResolved(event, callId)));
  const events = copied.filter((_, index) => !lastRetries.includes(index));
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

/** Their time is that of the last entry: what passed in the original run since then is no active time of the fork. */
function doubtStartedCalls(
  state: ChartState,
  reason: string,
  settle: Settle = () => undefined,
): { state: ChartState; doubts: ChartEvent[] } {
  const { runId, turn, calls, now, generation } = state.context;
  const started = hasEnded(state) ? [] : calls.filter(isInProgress);
  const when = { at: now, generation };
  // The chart puts only running calls in doubt, so a queued call is marked as started first.
  const queued = started.filter(({ status }) => status === 'queued');
  const doubts: ChartEvent[] = [
    ...queued.map(({ callId, attempt, key = `${runId}:${turn.number}:${callId}` }) => {
      return { type: 'tool.started', ...when, callId, attempt: attempt + 1, key } as const;
    }),
    ...started.map((call): ChartEvent => {
      const { callId } = call;
      return settle(call, now, generation) ?? { type: 'tool.doubted', ...when, callId, reason };
    }),
  ];
  return { state: doubts.reduce(applyEvent, state), doubts };
}

/** Whether a call of a run, as it stands at an entry, is in doubt in a fork from that entry. */
export function isDoubtedInFork(call: Call): boolean {
  return call.status === 'doubted' || isInProgress(call) || isReadyToRetry(call);
}

/**
 * Started but not settled in a batch; `queued` after an interruption or a decision to retry. An approved call with duties
 * counts as started, because its approvals were about the original's.
 */
function isInProgress(call: Call): boolean {
  const { attempt, status } = call;
  return (
    (attempt > 0 || hasDuties(call)) &&
    (status === 'queued' || status === 'running' || status === 'reconciling')
  );
}

function isReadyToRetry({ attempt, status }: Call): boolean {
  return attempt > 0 && status === 'ready';
}

/** The state after an event that the chart must accept. */
export function applyEvent(state: ChartState, event: ChartEvent): ChartState {
  const step = next(state, event);
  if (step.handled) return step.state;
  throw new Error(`The chart does not accept ${event.type} in state ${JSON.stringify(state.value)}.`);
}
