import type { Step } from '../../../machines/step.ts';
import type { ChartEvent, RunStarted } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import { addSpent, NOTHING_SPENT } from '../environment/spending.ts';
import { followEffects } from './follow-effects.ts';
import { followEdit, followTurn } from './follow-turn.ts';
import type { Ledger, LedgerCall } from './ledger.ts';
import { change, closeRound, countFailure, find, refuseCalls, settle } from './ledger-calls.ts';

export function beginLedger(started: RunStarted, step: Step): Ledger {
  const ledger: Ledger = {
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
  return followEffects(ledger, step.effects);
}

/** What has to be after an event that the chart took. */
export function followLedger(before: Ledger, event: ChartEvent, step: Step): Ledger {
  const now = { ...before, now: Math.max(before.now, event.at), misuse: [], overruns: [], unpaid: [] };
  return followEffects(closeRound(followEvent(now, event, step)), step.effects);
}

function followEvent(ledger: Ledger, event: ChartEvent, step: Step): Ledger {
  switch (event.type) {
    case 'message.received': {
      const { inbox, messages } = ledger;
      const received = {
        ...ledger,
        inbox: [...inbox, ...event.items],
        messages: [...messages, ...event.items],
      };
      return ledger.config.onMessage === 'queue' ? received : refuseCalls(received, isGated);
    }
    case 'approval.decided':
      return followDecision(ledger, event);
    case 'result.received':
      return settle(addSpentBy(ledger, event), event.callId, event);
    case 'doubt.resolved':
      switch (event.resolution.type) {
        case 'retry':
          return change(ledger, event.callId, { stage: 'ready', mayStart: true });
        case 'happened':
          return settle(ledger, event.callId, { output: event.resolution.output, isError: false });
        case 'failed':
          return settle(ledger, event.callId, { output: event.resolution.reason, isError: true });
      }
      break;
    case 'transcript.edited':
      return followEdit(ledger, event);
    case 'pause.requested':
      return { ...ledger, paused: true };
    case 'cancel.requested':
      return { ...ledger, cancelling: true };
    case 'step.requested':
      return { ...ledger, paused: true, steps: ledger.steps + 1 };
    case 'run.unpaused':
      return { ...ledger, paused: false, steps: 0 };
    case 'run.parked':
      return { ...ledger, paused: true, steps: 0, unfinished: 'modelTurn' in ledger.running };
    case 'turn.completed':
      return followTurn(ledger, event, step);
    case 'turn.failed': {
      const activeMs = ledger.spending.activeMs + Math.max(0, event.at - event.startedAt);
      return { ...ledger, unfinished: true, spending: { ...ledger.spending, activeMs } };
    }
    case 'tool.started': {
      const started = find(ledger, event.callId);
      const since = ledger.calls.some(isActing) ? ledger.spending.activeSince : event.at;
      const busy = { ...ledger, spending: { ...ledger.spending, activeSince: since } };
      if (started === undefined) return busy;
      const starts = started.starts + 1;
      return change(busy, event.callId, { stage: 'running', starts, mayStart: false });
    }
    case 'tool.settled': {
      const digest = find(ledger, event.callId)?.digest;
      const ended = addSpentBy(endActivity(ledger, event.at), event);
      const counted = digest === undefined ? ended : countFailure(ended, digest, event.isError);
      return settle(counted, event.callId, event);
    }
    case 'tool.interrupted': {
      const spending = { ...ledger.spending, activeSince: event.at };
      return change({ ...ledger, spending }, event.callId, afterInterruption(find(ledger, event.callId)));
    }
    case 'tool.doubted':
      return change(endActivity(ledger, event.at), event.callId, { stage: 'doubted' });
    case 'tool.suspended':
      return change(endActivity(ledger, event.at), event.callId, { stage: 'away' });
    case 'timer.fired':
      return refuseCalls(
        ledger,
        ({ stage, call }) =>
          stage === 'gated' && call.expiresAt !== undefined && call.expiresAt <= ledger.now,
      );
    case 'finishers.rejected': {
      const { feedback } = event;
      const message: Item = {
        type: 'message',
        role: 'developer',
        content: [{ type: 'text', text: feedback }],
      };
      return { ...ledger, transcript: [...ledger.transcript, message] };
    }
    case 'text.started':
      return { ...ledger, shown: true };
    case 'params.changed':
    case 'run.cancelled':
    case 'calls.started':
    case 'finishers.completed':
      return ledger;
  }
}

type Of<Type extends ChartEvent['type']> = Extract<ChartEvent, { type: Type }>;

function followDecision(ledger: Ledger, event: Of<'approval.decided'>): Ledger {
  const decided = find(ledger, event.callId);
  if (decided === undefined) return ledger;
  const { decision } = event;
  const { name, executedBy } = decided.call;
  const rules = ledger.sticky.filter(({ tool }) => tool !== name);
  const ruled =
    event.sticky === true && decision.type !== 'answer'
      ? { ...ledger, sticky: [...rules, { tool: name, decision: decision.type }] }
      : ledger;
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

function addSpentBy(ledger: Ledger, { spent }: Of<'tool.settled'> | Of<'result.received'>): Ledger {
  return spent === undefined ? ledger : { ...ledger, spending: addSpent(ledger.spending, spent) };
}

const isGated = ({ stage }: LedgerCall) => stage === 'gated';
const isActing = ({ stage }: LedgerCall) => stage === 'running' || stage === 'asking';

function afterInterruption(entry: LedgerCall | undefined): Partial<LedgerCall> {
  if (entry === undefined) return {};
  if (entry.call.sideEffect !== 'once') return { stage: 'queued', mayStart: true };
  return { stage: entry.call.reconcilable ? 'asking' : 'doubted' };
}

function endActivity(ledger: Ledger, at: number): Ledger {
  const { activeSince, activeMs } = ledger.spending;
  if (activeSince === null) return ledger;
  const spent = activeMs + Math.max(0, at - activeSince);
  return { ...ledger, spending: { ...ledger.spending, activeMs: spent, activeSince: at } };
}
