import type { CallStatus } from '../machines/context.ts';
import { limitsOf } from '../machines/limits.ts';
import type { ChartState, Step, Stepper } from '../machines/step.ts';
import type { Breakpoint } from '../protocol/debugger/breakpoint.ts';
import type { Effect, NextAction, ServiceName } from '../protocol/effect.ts';
import { EngineError } from '../protocol/error.ts';
import type { ChartEvent, QualifiedCall, RunStarted } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import { omitUndefined } from '../protocol/json.ts';
import { costOf } from '../protocol/listing/cost.ts';
import type { CheckedStep } from './built-in-invariants.ts';
import {
  addSpent,
  change,
  closeRound,
  countFailure,
  find,
  findSpentLimit,
  NOTHING_SPENT,
  type ReferenceCall,
  type ReferenceModel,
  refuseCalls,
  settle,
} from './reference-model.ts';

/** Returns the reference model of a run that has just started. */
export function startReference(started: RunStarted, step: Step): ReferenceModel {
  const reference: ReferenceModel = {
    config: started.config,
    now: started.at,
    running: {},
    misuse: [],
    overruns: [],
    unpaid: [],
    unheld: [],
    continued: false,
    breakpoints: [],
    held: false,
    latest: null,
    transcript: started.input,
    inbox: [],
    messages: [],
    calls: [],
    resultsAt: null,
    done: [],
    sticky: [],
    paused: started.paused ?? false,
    cancelling: false,
    steps: 0,
    spending: NOTHING_SPENT,
    final: false,
    closing: 'none',
    shown: false,
    unfinished: false,
    continuation: null,
  };
  return followEffects(reference, step.effects);
}

/** Returns the reference model after an event that the chart accepted. */
export function followReference(before: ReferenceModel, event: ChartEvent, step: Step): ReferenceModel {
  const current = {
    ...before,
    now: Math.max(before.now, event.at),
    misuse: [],
    overruns: [],
    unpaid: [],
    unheld: [],
  };
  const continued = { ...current, continued: event.type === 'run.unpaused' };
  const followed = expectationOf(event).follow?.(continued, event, step) ?? continued;
  return followEffects(closeRound(followed), step.effects);
}

type Of<Type extends ChartEvent['type']> = Extract<ChartEvent, { type: Type }>;

/** What an event must do, stated independently of the chart's guards and its fold. */
type Expected<Event> = {
  /** Whether the chart must accept it while the run is active. It must ignore all others. Default: always. */
  isEnabled?(event: Event, reference: ReferenceModel, state: ChartState): boolean;
  /** Returns the reference model after it. Default: unchanged. */
  follow?(reference: ReferenceModel, event: Event, step: Step): ReferenceModel;
};

const EXPECTED: { readonly [Type in ChartEvent['type']]: Expected<Of<Type>> } = {
  'message.received': { follow: followMessage },
  'approval.decided': {
    isEnabled: (event, reference) => isDecidable(event, find(reference, event.callId)),
    follow: followDecision,
  },
  'result.received': {
    isEnabled: ({ callId, childRunId }, reference) =>
      hasStage(reference, callId, 'waiting') && find(reference, callId)?.childRunId === childRunId,
    follow: (reference, event) => settle(addSpentBy(reference, event), event.callId, event),
  },
  'doubt.resolved': {
    isEnabled: ({ callId }, reference) => hasStage(reference, callId, 'doubted'),
    follow: followResolution,
  },
  'transcript.edited': {
    isEnabled: ({ calls }, reference, { value }) => {
      const digests = new Map(calls.map(({ callId, digest }) => [callId, digest]));
      return isResting(value) && reference.calls.every(entry => isFree(entry) || isKept(entry, digests));
    },
    follow: followEdit,
  },
  'turn.edited': {
    isEnabled: ({ turn, calls }, reference, { value, context }) =>
      isResting(value) && turn === context.turn.number && isEditable(reference, calls.length),
    follow: followTurnEdit,
  },
  'call.edited': {
    isEnabled: ({ callId, digest, call }, reference) => {
      const entry = find(reference, callId);
      const isOpen = entry?.stage === 'ready' || entry?.stage === 'gated';
      return isOpen && entry.starts === 0 && entry.digest === digest && call.error === undefined;
    },
    follow: followCallEdit,
  },
  'breakpoints.set': { follow: (reference, { breakpoints }) => ({ ...reference, breakpoints }) },
  'params.changed': {
    follow: (reference, _, { state }) => ({
      ...reference,
      config: { ...reference.config, limits: limitsOf(state.context) },
    }),
  },
  'pause.requested': {
    isEnabled: (_, { paused }) => !paused,
    follow: reference => ({ ...reference, paused: true }),
  },
  'step.requested': { follow: reference => ({ ...reference, paused: true, steps: reference.steps + 1 }) },
  'run.unpaused': {
    isEnabled: (_, { paused }) => paused,
    follow: reference => ({ ...reference, paused: false, steps: 0 }),
  },
  'run.quarantined': {
    isEnabled: (_, { running }) =>
      (['modelTurn', 'toolBatch', 'finishers'] as const).some(id => id in running),
    follow: reference => ({
      ...reference,
      paused: true,
      steps: 0,
      unfinished: 'modelTurn' in reference.running,
    }),
  },
  'cancel.requested': {
    isEnabled: (_, { cancelling }) => !cancelling,
    follow: reference => ({ ...reference, cancelling: true }),
  },
  'run.cancelled': {},
  'text.started': {
    isEnabled: reportOf('modelTurn'),
    follow: reference => ({ ...reference, shown: true }),
  },
  'calls.started': { isEnabled: reportOf('modelTurn') },
  'turn.completed': { isEnabled: reportOf('modelTurn'), follow: followTurn },
  'turn.failed': {
    isEnabled: reportOf('modelTurn'),
    follow: (reference, event) => {
      const activeMs = reference.spending.activeMs + Math.max(0, event.at - event.startedAt);
      return { ...reference, unfinished: true, spending: { ...reference.spending, activeMs } };
    },
  },
  'tool.started': { isEnabled: reportAbout('queued', 'running', 'reconciling'), follow: followStart },
  'tool.settled': { isEnabled: reportAbout('running', 'reconciling'), follow: followSettlement },
  'tool.interrupted': {
    isEnabled: reportAbout('running'),
    follow: (reference, event) => {
      const spending = { ...reference.spending, activeSince: event.at };
      const interrupted = find(reference, event.callId);
      return change({ ...reference, spending }, event.callId, afterInterruption(interrupted));
    },
  },
  'tool.doubted': {
    isEnabled: reportAbout('running', 'reconciling'),
    follow: (reference, { at, callId }) => change(endActivity(reference, at), callId, { stage: 'doubted' }),
  },
  'tool.suspended': {
    isEnabled: reportAbout('running'),
    follow: (reference, { at, callId, childRunId }) =>
      change(endActivity(reference, at), callId, { stage: 'waiting', childRunId }),
  },
  'timer.fired': {
    isEnabled: reportOf('timer'),
    follow: reference => refuseCalls(reference, call => isExpired(call, reference.now)),
  },
  'finishers.completed': { isEnabled: reportOf('finishers') },
  'finishers.rejected': {
    isEnabled: reportOf('finishers'),
    follow: (reference, { feedback }) => {
      const content: Item = {
        type: 'message',
        role: 'developer',
        content: [{ type: 'text', text: feedback }],
      };
      return { ...reference, latest: null, transcript: [...reference.transcript, content] };
    },
  },
};

function expectationOf(event: ChartEvent): Expected<ChartEvent> {
  return EXPECTED[event.type] as Expected<ChartEvent>;
}

/** Whether the chart must accept the event; it must ignore all others. */
export function isEnabled(event: ChartEvent, reference: ReferenceModel, state: ChartState): boolean {
  if (state.status !== 'active') return false;
  return expectationOf(event).isEnabled?.(event, reference, state) ?? true;
}

function followMessage(reference: ReferenceModel, { items }: Of<'message.received'>): ReferenceModel {
  const { inbox, messages, config } = reference;
  const received = { ...reference, inbox: [...inbox, ...items], messages: [...messages, ...items] };
  return config.onMessage === 'queue' ? received : refuseCalls(received, ({ stage }) => stage === 'gated');
}

function followResolution(
  reference: ReferenceModel,
  { callId, resolution }: Of<'doubt.resolved'>,
): ReferenceModel {
  switch (resolution.type) {
    case 'retry':
      return change(reference, callId, { stage: 'ready', mayStart: true });
    case 'happened':
      return settle(reference, callId, { output: resolution.output, isError: false });
    case 'failed':
      return settle(reference, callId, { output: resolution.reason, isError: true });
  }
}

function followStart(reference: ReferenceModel, { at, callId }: Of<'tool.started'>): ReferenceModel {
  const started = find(reference, callId);
  const activeSince = reference.calls.some(isActing) ? reference.spending.activeSince : at;
  const active = { ...reference, spending: { ...reference.spending, activeSince } };
  if (started === undefined) return active;
  return change(active, callId, { stage: 'running', starts: started.starts + 1, mayStart: false });
}

function followSettlement(reference: ReferenceModel, event: Of<'tool.settled'>): ReferenceModel {
  const digest = find(reference, event.callId)?.digest;
  const ended = addSpentBy(endActivity(reference, event.at), event);
  const counted = digest === undefined ? ended : countFailure(ended, digest, { failed: event.isError });
  return settle(counted, event.callId, event);
}

function followDecision(reference: ReferenceModel, event: Of<'approval.decided'>): ReferenceModel {
  const decided = find(reference, event.callId);
  if (decided === undefined) return reference;
  const { decision } = event;
  const { name, executedBy } = decided.call;
  const rules = reference.sticky.filter(({ tool }) => tool !== name);
  const ruled =
    event.sticky === true && decision.type !== 'answer'
      ? { ...reference, sticky: [...rules, { tool: name, decision: decision.type }] }
      : reference;
  switch (decision.type) {
    case 'approve':
      return change(ruled, event.callId, {
        stage: executedBy === 'client' ? 'waiting' : 'ready',
        approved: true,
        ...omitUndefined({ input: decision.input, digest: decision.editDigest }),
      });
    case 'reject':
      return change(ruled, event.callId, { stage: 'settled', result: null });
    case 'answer':
      return settle(ruled, event.callId, { output: decision.output, isError: false });
  }
}

function addSpentBy(
  reference: ReferenceModel,
  { spent }: Of<'tool.settled'> | Of<'result.received'>,
): ReferenceModel {
  return spent === undefined ? reference : { ...reference, spending: addSpent(reference.spending, spent) };
}

function isActing({ stage }: ReferenceCall): boolean {
  return stage === 'running' || stage === 'reconciling';
}

function isExpired({ stage, call }: ReferenceCall, now: number): boolean {
  return stage === 'gated' && call.expiresAt !== undefined && call.expiresAt <= now;
}

function afterInterruption(entry: ReferenceCall | undefined): Partial<ReferenceCall> {
  if (entry === undefined) return {};
  if (entry.call.sideEffect !== 'once') return { stage: 'queued', mayStart: true };
  return { stage: entry.call.reconcilable ? 'reconciling' : 'doubted' };
}

function endActivity(reference: ReferenceModel, at: number): ReferenceModel {
  const { activeSince, activeMs } = reference.spending;
  if (activeSince === null) return reference;
  const spent = activeMs + Math.max(0, at - activeSince);
  return { ...reference, spending: { ...reference.spending, activeMs: spent, activeSince: at } };
}

/** Applies a completed turn: its items, its calls with their status by the rules, and its cost. */
function followTurn(reference: ReferenceModel, event: Of<'turn.completed'>, step: Step): ReferenceModel {
  const { config, spending, final, closing } = reference;
  const { finishReason, calls, usage } = event;
  const latest = { from: reference.transcript.length, calls: calls.length };
  const model = config.models[step.state.context.turn.model]?.model ?? '';
  const counted: ReferenceModel = {
    ...reference,
    latest,
    shown: false,
    unfinished: false,
    closing: closing === 'begun' ? 'over' : closing,
    spending: {
      ...spending,
      turns: spending.turns + 1,
      tokens: spending.tokens + (usage === null ? 0 : usage.inputTokens + usage.outputTokens),
      cost: spending.cost + costOf(usage, model, config.prices),
      activeMs: spending.activeMs + Math.max(0, event.at - event.startedAt),
    },
  };
  const isStopped = finishReason === 'pause' || finishReason === 'content_filter';
  if (config.finalAnswer === 'separate' && !final && calls.length === 0 && !isStopped) return counted;
  const read = {
    ...counted,
    transcript: [...counted.transcript, ...event.items],
    continuation: event.continuation?.token ?? null,
  };
  const isCutOff = finishReason === 'length' || finishReason === 'content_filter';
  return admit(read, calls, { refusesAll: final || isCutOff });
}

/** Decides which of a turn's calls may run. Calls refused for other reasons do not count as tool calls. */
function admit(
  reference: ReferenceModel,
  calls: readonly QualifiedCall[],
  { refusesAll = false } = {},
): ReferenceModel {
  let { toolCalls, denied } = reference.spending;
  const admitted = calls.map((call): ReferenceCall => {
    const known = find(reference, call.callId);
    if (known !== undefined) return known;
    const { input, digest } = call;
    const entry = { call, input, digest, approved: false, starts: 0, mayStart: true, result: null };
    if (refusesAll || call.error !== undefined) return { ...entry, stage: 'settled' };
    if (call.executedBy === 'engine') {
      if (toolCalls >= reference.config.limits.toolCalls) {
        denied += 1;
        return { ...entry, stage: 'settled', deniedFor: 'toolCalls' };
      }
      toolCalls += 1;
    }
    const rule = reference.sticky.find(({ tool }) => tool === call.name)?.decision;
    if (call.gate && rule === 'reject') return { ...entry, stage: 'settled' };
    if (call.gate && rule === undefined) return { ...entry, stage: 'gated' };
    return { ...entry, approved: call.gate, stage: call.executedBy === 'client' ? 'waiting' : 'ready' };
  });
  const failed = refusesAll ? [] : calls.filter(({ error }) => error !== undefined);
  const spending = { ...reference.spending, toolCalls, denied };
  const opened: ReferenceModel = { ...reference, calls: admitted, spending };
  return failed.reduce((state, { digest }) => countFailure(state, digest, { failed: true }), opened);
}

/** Applies an edit of the transcript: its items, and the calls that it keeps or adds. */
function followEdit(reference: ReferenceModel, event: Of<'transcript.edited'>): ReferenceModel {
  const { items, calls, results = [] } = event;
  const ids = new Set(calls.map(({ callId }) => callId));
  const place = items.findLastIndex(item => item.type === 'tool_call' && ids.has(item.callId)) + 1;
  const outcomes = new Map(results.map(result => [result.callId, result]));
  const kept = calls.flatMap((call): ReferenceCall[] => {
    const { callId, input, digest } = call;
    const result = outcomes.get(callId);
    const entry = { call, input, digest, approved: false, starts: 0, mayStart: true };
    if (result !== undefined) return [{ ...entry, stage: 'settled', result }];
    const known = find(reference, callId);
    return known?.digest === digest ? [known] : [];
  });
  const present = new Set(items.map(item => JSON.stringify(item)));
  const edited: ReferenceModel = {
    ...reference,
    transcript: items,
    messages: [
      ...reference.messages.filter(item => present.has(JSON.stringify(item))),
      ...reference.inbox,
    ].filter((item, index, all) => all.indexOf(item) === index),
    calls: kept,
    latest: null,
    resultsAt: place === 0 || place === items.length ? null : place,
    shown: false,
    unfinished: false,
    continuation: null,
  };
  return admit(edited, calls);
}

/** Applies an edit of the latest turn. Calls that it replaces no longer count. */
function followTurnEdit(reference: ReferenceModel, event: Of<'turn.edited'>): ReferenceModel {
  const { latest, config, final, spending, transcript } = reference;
  if (latest === null) return reference;
  const { calls, items } = event;
  const kept = calls.flatMap(({ callId, digest }) => {
    const known = find(reference, callId);
    return known?.digest === digest ? [known] : [];
  });
  const dropped = reference.calls.filter(
    entry => !kept.includes(entry) && entry.stage !== 'settled' && entry.call.executedBy === 'engine',
  );
  const isDraft = config.finalAnswer === 'separate' && !final && calls.length === 0;
  const edited: ReferenceModel = {
    ...reference,
    transcript: [...transcript.slice(0, latest.from), ...(isDraft ? [] : items)],
    calls: kept,
    latest: { ...latest, calls: calls.length },
    resultsAt: null,
    continuation: null,
    spending: { ...spending, toolCalls: spending.toolCalls - dropped.length },
  };
  return admit(edited, calls);
}

/** Applies an edit of a call that has not started: it needs an approval again, unless a sticky rule gives it. */
function followCallEdit(reference: ReferenceModel, { callId, call }: Of<'call.edited'>): ReferenceModel {
  const isAllowed = reference.sticky.some(
    ({ tool, decision }) => tool === call.name && decision === 'approve',
  );
  const stage = call.executedBy === 'client' ? 'waiting' : 'ready';
  const { input, digest } = call;
  return change(reference, callId, {
    call,
    input,
    digest,
    approved: call.gate && isAllowed,
    stage: call.gate && !isAllowed ? 'gated' : stage,
  });
}

/** Applies a step's effects: updates the running services and records invalid starts and stops. */
function followEffects(before: ReferenceModel, effects: readonly Effect[]): ReferenceModel {
  let reference = before;
  let decided: NextAction | null = null;
  for (const effect of effects) {
    switch (effect.type) {
      case 'publish':
        if (effect.notice.type === 'decided') decided = effect.notice.next;
        if (decided?.type === 'pause' && decided.breakpoint !== undefined)
          reference = { ...reference, paused: true, held: true };
        break;
      case 'stop':
        reference = stopService(reference, effect.id);
        break;
      case 'start':
        reference = startService(reference, effect, decided);
    }
  }
  return reference;
}

function stopService(reference: ReferenceModel, id: string): ReferenceModel {
  if (!(id in reference.running))
    return { ...reference, misuse: [...reference.misuse, `${id} was stopped and was not running`] };
  const { [id]: _, ...running } = reference.running;
  return { ...reference, running };
}

function startService(
  reference: ReferenceModel,
  { id, service, input }: Extract<Effect, { type: 'start' }>,
  decided: NextAction | null,
): ReferenceModel {
  const misuse =
    id in reference.running
      ? [...reference.misuse, `${id} was started and was already running`]
      : reference.misuse;
  const started = { ...reference, misuse, running: { ...reference.running, [id]: input } };
  if (service === 'timer' || decided === null) return started;
  const breakpoints = reference.breakpoints.filter(
    one => !(reference.held && one.once === true && matches(one, decided, reference)),
  );
  const begun = { ...started, unheld: findUnheld(reference, decided), breakpoints, held: false };
  switch (service) {
    case 'finishers':
      return spendStep(begun, 'finishers');
    case 'toolBatch': {
      const calls = begun.calls.map(call =>
        call.stage === 'ready' ? { ...call, stage: 'queued' as const } : call,
      );
      const spending = { ...begun.spending, activeSince: null };
      return spendStep({ ...begun, calls, spending }, 'a tool batch');
    }
    case 'modelTurn':
      return beginTurn(spendStep(begun, 'a model call'), decided);
  }
}

/**
 * The breakpoints that should have held this start. None if a person let it past, asked for this step, or it repeats a
 * turn that did not complete.
 */
function findUnheld(reference: ReferenceModel, decided: NextAction): string[] {
  const { breakpoints, continued, paused, steps, unfinished } = reference;
  if (continued || (paused && steps > 0)) return [];
  if (unfinished && decided.type !== 'executeTools') return [];
  return breakpoints
    .filter(one => matches(one, decided, reference))
    .map(({ id }) => `${decided.type} started at the breakpoint ${id}`);
}

/** Whether a breakpoint on an action and a tool alone matches the action. */
function matches(
  { next, tool, turn, costOver, where }: Breakpoint,
  decided: NextAction,
  { calls }: ReferenceModel,
): boolean {
  if (turn !== undefined || costOver !== undefined || where !== undefined) return false;
  const named = 'calls' in decided ? decided.calls : [];
  const isAbout = calls.some(({ call }) => call.name === tool && named.includes(call.callId));
  return (next === undefined || next === decided.type) && (tool === undefined || isAbout);
}

/** Once a limit is reached, only one model call may start: the closing call. */
function beginTurn(reference: ReferenceModel, decided: NextAction | null): ReferenceModel {
  const { config, spending, closing, unfinished } = reference;
  const isFinal = decided?.type === 'streamFinal';
  const isClosing = isFinal && decided.limit !== undefined;
  const reached = findSpentLimit(spending, config.limits);
  const overruns: string[] = [];
  if (closing === 'over') overruns.push('a model was called after the closing call');
  else if (reached !== null && !isClosing) overruns.push(`a model was called although ${reached}`);
  else if (reached !== null && config.onLimit === 'stop')
    overruns.push(`a closing call was made although ${reached} and onLimit is "stop"`);
  else if (closing === 'begun' && !unfinished) overruns.push('a second closing call was started');
  return {
    ...reference,
    overruns: [...reference.overruns, ...overruns],
    transcript:
      reference.inbox.length === 0 ? reference.transcript : [...reference.transcript, ...reference.inbox],
    inbox: [],
    shown: false,
    latest: null,
    final: isFinal,
    closing: isClosing ? 'begun' : closing,
  };
}

/** A paused run spends one requested step per service. */
function spendStep(reference: ReferenceModel, service: string): ReferenceModel {
  if (!reference.paused) return reference;
  if (reference.steps > 0) return { ...reference, steps: reference.steps - 1 };
  return { ...reference, unpaid: [...reference.unpaid, service] };
}

function isResting(value: ChartState['value']): boolean {
  return typeof value === 'object' && 'resting' in value;
}

/** Whether the latest turn may be replaced: none of its calls has started, or is with a client or in doubt. */
function isEditable({ latest, calls, final }: ReferenceModel, newCalls: number): boolean {
  if (latest === null || (final && newCalls > 0)) return false;
  if (calls.length === 0) return latest.calls === 0;
  return calls.every(entry => isFree(entry) && entry.starts === 0);
}

/** Whether the call awaits approval, has the digest that was seen, and has not expired. */
function isDecidable(
  { digest, at }: Extract<ChartEvent, { type: 'approval.decided' }>,
  entry: ReferenceCall | undefined,
): boolean {
  if (entry?.stage !== 'gated' || entry.digest !== digest) return false;
  const { expiresAt } = entry.call;
  return expiresAt === undefined || at < expiresAt;
}

/** Enables reports of the running start of a service. */
function reportOf(service: ServiceName) {
  return ({ generation }: { generation: number }, { running }: ReferenceModel): boolean =>
    running[service]?.generation === generation;
}

/** Enables reports of the running tool batch about calls at these stages. */
function reportAbout(...stages: readonly CallStatus[]) {
  const isCurrent = reportOf('toolBatch');
  return (event: { generation: number; callId: string }, reference: ReferenceModel): boolean =>
    isCurrent(event, reference) && hasStage(reference, event.callId, ...stages);
}

function hasStage(reference: ReferenceModel, callId: string, ...stages: readonly CallStatus[]): boolean {
  const stage = find(reference, callId)?.stage;
  return stage !== undefined && stages.includes(stage);
}

/** Whether an edit may drop the call: no batch or client has it, and it cannot have happened. */
function isFree({ stage }: ReferenceCall): boolean {
  return stage === 'ready' || stage === 'gated' || stage === 'settled';
}

function isKept({ call, stage, digest }: ReferenceCall, digests: ReadonlyMap<string, string>): boolean {
  const isOwed = stage === 'queued' || stage === 'running' || stage === 'reconciling';
  return !isOwed && digests.get(call.callId) === digest;
}

/**
 * Follows the events of a run, and returns the last step. Nothing is checked: these events have happened. Throws
 * `journal-damaged` for an event that the chart does not accept.
 */
export function replayPast(
  stepper: Pick<Stepper, 'initial' | 'next'>,
  started: RunStarted,
  past: readonly ChartEvent[],
): CheckedStep {
  const step = stepper.initial(started);
  let last: CheckedStep = {
    before: null,
    event: null,
    after: step.state,
    effects: step.effects,
    reference: startReference(started, step),
  };
  for (const [index, event] of past.entries()) {
    const before = { state: last.after, reference: last.reference };
    const taken = stepper.next(before.state, event);
    if (!taken.handled)
      throw new EngineError(
        'journal-damaged',
        `The chart does not accept event ${index + 1} after the start, ${event.type}.`,
      );
    const { state: after, effects } = taken;
    const { transcript, inbox } = after.context;
    const reference = { ...followReference(before.reference, event, taken), transcript, inbox };
    last = { before, event, after, effects, reference };
  }
  return last;
}
