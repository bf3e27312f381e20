import type { Step } from '../../../machines/step.ts';
import type { ChartEvent, RunStarted } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import { addSpent, NOTHING_SPENT } from '../environment/spending.ts';
import { followEffects } from './follow-effects.ts';
import { followEdit, followTurn } from './follow-turn.ts';
import { change, closeRound, countFailure, find, refuseCalls, settle } from './reference-calls.ts';
import type { ReferenceCall, ReferenceModel } from './reference-model.ts';

export function beginLedger(started: RunStarted, step: Step): ReferenceModel {
  const reference: ReferenceModel = {
    config: started.config,
    now: started.at,
    running: {},
    misuse: [],
    overruns: [],
    unpaid: [],
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

/** What has to be after an event that the chart took. */
export function followLedger(before: ReferenceModel, event: ChartEvent, step: Step): ReferenceModel {
  const now = { ...before, now: Math.max(before.now, event.at), misuse: [], overruns: [], unpaid: [] };
  return followEffects(closeRound(followEvent(now, event, step)), step.effects);
}

function followEvent(reference: ReferenceModel, event: ChartEvent, step: Step): ReferenceModel {
  switch (event.type) {
    case 'message.received': {
      const { inbox, messages } = reference;
      const received = {
        ...reference,
        inbox: [...inbox, ...event.items],
        messages: [...messages, ...event.items],
      };
      return reference.config.onMessage === 'queue' ? received : refuseCalls(received, isGated);
    }
    case 'approval.decided':
      return followDecision(reference, event);
    case 'result.received':
      return settle(addSpentBy(reference, event), event.callId, event);
    case 'doubt.resolved':
      switch (event.resolution.type) {
        case 'retry':
          return change(reference, event.callId, { stage: 'ready', mayStart: true });
        case 'happened':
          return settle(reference, event.callId, { output: event.resolution.output, isError: false });
        case 'failed':
          return settle(reference, event.callId, { output: event.resolution.reason, isError: true });
      }
      break;
    case 'transcript.edited':
      return followEdit(reference, event);
    case 'pause.requested':
      return { ...reference, paused: true };
    case 'cancel.requested':
      return { ...reference, cancelling: true };
    case 'step.requested':
      return { ...reference, paused: true, steps: reference.steps + 1 };
    case 'run.unpaused':
      return { ...reference, paused: false, steps: 0 };
    case 'run.quarantined':
      return { ...reference, paused: true, steps: 0, unfinished: 'modelTurn' in reference.running };
    case 'turn.completed':
      return followTurn(reference, event, step);
    case 'turn.failed': {
      const activeMs = reference.spending.activeMs + Math.max(0, event.at - event.startedAt);
      return { ...reference, unfinished: true, spending: { ...reference.spending, activeMs } };
    }
    case 'tool.started': {
      const started = find(reference, event.callId);
      const since = reference.calls.some(isActing) ? reference.spending.activeSince : event.at;
      const busy = { ...reference, spending: { ...reference.spending, activeSince: since } };
      if (started === undefined) return busy;
      const starts = started.starts + 1;
      return change(busy, event.callId, { stage: 'running', starts, mayStart: false });
    }
    case 'tool.settled': {
      const digest = find(reference, event.callId)?.digest;
      const ended = addSpentBy(endActivity(reference, event.at), event);
      const counted = digest === undefined ? ended : countFailure(ended, digest, event.isError);
      return settle(counted, event.callId, event);
    }
    case 'tool.interrupted': {
      const spending = { ...reference.spending, activeSince: event.at };
      return change(
        { ...reference, spending },
        event.callId,
        afterInterruption(find(reference, event.callId)),
      );
    }
    case 'tool.doubted':
      return change(endActivity(reference, event.at), event.callId, { stage: 'doubted' });
    case 'tool.suspended':
      return change(endActivity(reference, event.at), event.callId, { stage: 'away' });
    case 'timer.fired':
      return refuseCalls(
        reference,
        ({ stage, call }) =>
          stage === 'gated' && call.expiresAt !== undefined && call.expiresAt <= reference.now,
      );
    case 'finishers.rejected': {
      const { feedback } = event;
      const message: Item = {
        type: 'message',
        role: 'developer',
        content: [{ type: 'text', text: feedback }],
      };
      return { ...reference, transcript: [...reference.transcript, message] };
    }
    case 'text.started':
      return { ...reference, shown: true };
    case 'params.changed':
    case 'run.cancelled':
    case 'calls.started':
    case 'finishers.completed':
      return reference;
  }
}

type Of<Type extends ChartEvent['type']> = Extract<ChartEvent, { type: Type }>;

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
        stage: executedBy === 'client' ? 'away' : 'ready',
        approved: true,
        ...(decision.input === undefined ? {} : { input: decision.input }),
        ...(decision.editDigest === undefined ? {} : { digest: decision.editDigest }),
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

const isGated = ({ stage }: ReferenceCall) => stage === 'gated';
const isActing = ({ stage }: ReferenceCall) => stage === 'running' || stage === 'asking';

function afterInterruption(entry: ReferenceCall | undefined): Partial<ReferenceCall> {
  if (entry === undefined) return {};
  if (entry.call.sideEffect !== 'once') return { stage: 'queued', mayStart: true };
  return { stage: entry.call.reconcilable ? 'asking' : 'doubted' };
}

function endActivity(reference: ReferenceModel, at: number): ReferenceModel {
  const { activeSince, activeMs } = reference.spending;
  if (activeSince === null) return reference;
  const spent = activeMs + Math.max(0, at - activeSince);
  return { ...reference, spending: { ...reference.spending, activeMs: spent, activeSince: at } };
}
