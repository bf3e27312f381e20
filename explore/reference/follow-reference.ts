import { limitsOf } from '../../machines/limits.ts';
import type { Step } from '../../machines/step.ts';
import type { ChartEvent, RunStarted } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { addSpent, NOTHING_SPENT } from '../environment/spending.ts';
import { followEffects } from './follow-effects.ts';
import { followCallEdit, followEdit, followTurn, followTurnEdit } from './follow-turn.ts';
import { change, closeRound, countFailure, find, refuseCalls, settle } from './reference-calls.ts';
import type { ReferenceCall, ReferenceModel } from './reference-model.ts';

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
  const reduce = REDUCERS[event.type] as Reducer<ChartEvent>;
  return followEffects(closeRound(reduce(continued, event, step)), step.effects);
}

type Of<Type extends ChartEvent['type']> = Extract<ChartEvent, { type: Type }>;

type Reducer<Event> = (reference: ReferenceModel, event: Event, step: Step) => ReferenceModel;

const unchanged = (reference: ReferenceModel) => reference;

/** What each event changes, stated independently of the chart's own fold. */
const REDUCERS: { readonly [Type in ChartEvent['type']]: Reducer<Of<Type>> } = {
  'message.received': followMessage,
  'approval.decided': followDecision,
  'result.received': (reference, event) => settle(addSpentBy(reference, event), event.callId, event),
  'doubt.resolved': followResolution,
  'transcript.edited': followEdit,
  'turn.edited': followTurnEdit,
  'call.edited': followCallEdit,
  'breakpoints.set': (reference, { breakpoints }) => ({ ...reference, breakpoints }),
  'params.changed': (reference, _, { state }) => ({
    ...reference,
    config: { ...reference.config, limits: limitsOf(state.context) },
  }),
  'pause.requested': reference => ({ ...reference, paused: true }),
  'step.requested': reference => ({ ...reference, paused: true, steps: reference.steps + 1 }),
  'run.unpaused': reference => ({ ...reference, paused: false, steps: 0 }),
  'run.quarantined': reference => ({
    ...reference,
    paused: true,
    steps: 0,
    unfinished: 'modelTurn' in reference.running,
  }),
  'cancel.requested': reference => ({ ...reference, cancelling: true }),
  'run.cancelled': unchanged,
  'text.started': reference => ({ ...reference, shown: true }),
  'calls.started': unchanged,
  'turn.completed': followTurn,
  'turn.failed': (reference, event) => {
    const activeMs = reference.spending.activeMs + Math.max(0, event.at - event.startedAt);
    return { ...reference, unfinished: true, spending: { ...reference.spending, activeMs } };
  },
  'tool.started': followStart,
  'tool.settled': followSettlement,
  'tool.interrupted': (reference, event) => {
    const spending = { ...reference.spending, activeSince: event.at };
    const interrupted = find(reference, event.callId);
    return change({ ...reference, spending }, event.callId, afterInterruption(interrupted));
  },
  'tool.doubted': (reference, { at, callId }) =>
    change(endActivity(reference, at), callId, { stage: 'doubted' }),
  'tool.suspended': (reference, { at, callId, childRunId }) =>
    change(endActivity(reference, at), callId, { stage: 'waiting', childRunId }),
  'timer.fired': reference => refuseCalls(reference, call => isExpired(call, reference.now)),
  'finishers.completed': unchanged,
  'finishers.rejected': (reference, { feedback }) => {
    const content: Item = { type: 'message', role: 'developer', content: [{ type: 'text', text: feedback }] };
    return { ...reference, latest: null, transcript: [...reference.transcript, content] };
  },
};

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
