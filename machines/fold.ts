import type { ChartEvent } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import { omitUndefined } from '../protocol/json.ts';
import { costOf } from '../protocol/listing/cost.ts';
import { passBreakpoint } from './breakpoints.ts';
import { callsWith, changeCall, findCall, isBusy, resultOf, settleCall } from './calls.ts';
import type { Call, Context, LastTurn } from './context.ts';
import { chooseAction } from './decide-next-action.ts';
import { admitCalls, countOutcome } from './folding/admit-calls.ts';
import { decideApproval, resolveDoubt } from './folding/decisions.ts';
import { editCall, editTranscript, editTurn } from './folding/edits.ts';
import { answerOf, describeTurn } from './folding/last-turn.ts';
import { addSpent, addUsage, modelOf } from './limits.ts';

type Of<Type extends ChartEvent['type']> = Extract<ChartEvent, { type: Type }>;

/** Returns the context after an event. Pure; the guards have already checked that the event is allowed. */
export function fold(context: Context, event: ChartEvent): Context {
  const now = event.at > context.now ? { ...context, now: event.at } : context;
  switch (event.type) {
    case 'message.received':
      return receiveMessage(now, event);
    case 'approval.decided':
      return decideApproval(now, event);
    case 'result.received':
      return receiveResult(now, event);
    case 'doubt.resolved':
      return resolveDoubt(now, event);
    case 'transcript.edited':
      return editTranscript(now, event);
    case 'turn.edited':
      return editTurn(now, event);
    case 'call.edited':
      return editCall(now, event);
    case 'breakpoints.set':
      return setBreakpoints(now, event);
    case 'params.changed':
      return { ...now, params: event.params };
    case 'pause.requested':
      return { ...now, paused: true };
    case 'cancel.requested':
      return requestCancel(now, event);
    case 'step.requested':
      return { ...continueFrom(now), paused: true, quarantined: null, steps: now.steps + 1 };
    case 'run.unpaused':
      return { ...continueFrom(now), paused: false, quarantined: null, steps: 0 };
    case 'run.quarantined':
      return quarantine(now, event);
    case 'run.cancelled':
      return now;
    case 'text.started':
      return { ...now, turn: { ...now.turn, shown: true } };
    case 'calls.started':
      return now;
    case 'turn.completed':
      return completeTurn(now, event);
    case 'turn.failed':
      return failTurn(now, event);
    case 'tool.started':
      return changeCall(beginActivity(now, event.at), event.callId, {
        status: 'running',
        attempt: event.attempt,
        key: event.key,
      });
    case 'tool.settled':
      return settleTool(endActivity(now, event.at), event);
    case 'tool.interrupted':
      return interruptTool({ ...now, activeSince: event.at }, event.callId);
    case 'tool.doubted':
      return changeCall(endActivity(now, event.at), event.callId, { status: 'doubted', doubt: event.reason });
    case 'tool.suspended':
      return changeCall(endActivity(now, event.at), event.callId, {
        status: 'waiting',
        childRunId: event.childRunId,
      });
    case 'timer.fired':
      return fireTimer(now);
    case 'finishers.completed':
      return completeFinishers(now, event);
    case 'finishers.rejected':
      return rejectAnswer(now, event);
  }
}

/** A breakpoint that holds the run does not hold the same action again. */
function continueFrom(context: Context): Context {
  return passBreakpoint(context, chooseAction(context));
}

/** A message waits for gated calls; with `onMessage: 'supersede'` it rejects them. */
function receiveMessage(context: Context, { items }: Of<'message.received'>): Context {
  const received = { ...context, inbox: [...context.inbox, ...items] };
  if (context.config.onMessage === 'queue') return received;
  return refuseCalls(received, callsWith(received, 'gated'), 'Not run: superseded by a new message.');
}

function refuseCalls(context: Context, calls: Call[], output: string): Context {
  return calls.reduce((state, { callId }) => settleCall(state, callId, { output, isError: true }), context);
}

function completeTurn(context: Context, event: Of<'turn.completed'>): Context {
  const lastTurn = describeTurn(context, event);
  const counted: Context = {
    ...context,
    lastTurn,
    failure: null,
    turns: context.turns + 1,
    usage: addUsage(context.usage, event.usage),
    cost: context.cost + costOf(event.usage, modelOf(context).model, context.config.prices),
    activeMs: context.activeMs + Math.max(0, event.at - event.startedAt),
    answer: answerOf(lastTurn, event.text),
  };
  if (lastTurn.draft) return counted;
  const read = {
    ...counted,
    transcript: [...counted.transcript, ...event.items],
    continuation: event.continuation ?? null,
  };
  return admitCalls(read, event.calls, whyNoneRuns(lastTurn));
}

/** Why no call of a turn may run: tools were off, or the turn was cut off. */
function whyNoneRuns({ final, finishReason }: LastTurn): string | null {
  if (final) return 'Not run: tools are off for the final answer.';
  if (finishReason === 'length') {
    return 'Not run: the reply was cut off at its length limit, so this call may be incomplete. Make it again, shorter.';
  }
  return finishReason === 'content_filter' ? 'Not run: the reply was stopped by a content filter.' : null;
}

/** Compares `retryAt` with the event's own time: the clock may have been set back since earlier events. */
function failTurn(context: Context, event: Of<'turn.failed'>): Context {
  const retryAt = event.retryAt ?? event.at;
  return {
    ...context,
    activeMs: context.activeMs + Math.max(0, event.at - event.startedAt),
    failure: { ...event.error, retryable: event.retryable, retryAt: retryAt > event.at ? retryAt : null },
  };
}

function requestCancel(
  context: Context,
  { type: _, at, requestId, asked, ...cancelling }: Of<'cancel.requested'>,
): Context {
  return { ...context, cancelling };
}

/** Keeps unfinished work: the model call is repeated, and the batch continues with its unsettled calls. */
function quarantine(context: Context, { reason }: Of<'run.quarantined'>): Context {
  const quarantined = { ...context, paused: true, quarantined: reason, steps: 0 };
  if (context.next?.type !== 'callModel' && context.next?.type !== 'streamFinal') return quarantined;
  const failure = { code: 'unfinished', message: reason, retryable: true, retryAt: null } as const;
  return { ...quarantined, failure: { ...failure, unfinished: true } };
}

function receiveResult(context: Context, event: Of<'result.received'>): Context {
  return settleCall(addSpent(context, event.spent), event.callId, resultOf(event));
}

function settleTool(context: Context, event: Of<'tool.settled'>): Context {
  const { callId, isError, spent } = event;
  const digest = findCall(context, callId)?.digest;
  const counted = digest === undefined ? context : countOutcome(context, digest, isError);
  return settleCall(addSpent(counted, spent), callId, resultOf(event));
}

/** A call without a recorded outcome runs again with the same key, is reconciled, or becomes in doubt. */
function interruptTool(context: Context, callId: string): Context {
  const call = findCall(context, callId);
  if (call === undefined) return context;
  if (call.sideEffect !== 'once') return changeCall(context, callId, { status: 'queued' });
  if (call.reconcilable) return changeCall(context, callId, { status: 'reconciling' });
  const doubt = 'The process that ran it stopped before its outcome was recorded.';
  return changeCall(context, callId, { status: 'doubted', doubt });
}

/** Ends the wait before a retry, or expires approvals. */
function fireTimer(context: Context): Context {
  const waited =
    context.failure === null ? context : { ...context, failure: { ...context.failure, retryAt: null } };
  const expired = callsWith(waited, 'gated').filter(
    ({ expiresAt }) => expiresAt !== undefined && expiresAt <= waited.now,
  );
  return refuseCalls(
    { ...waited, timer: null },
    expired,
    'Not run: the approval expired without a decision.',
  );
}

function completeFinishers(context: Context, event: Of<'finishers.completed'>): Context {
  const text = event.text ?? context.answer?.text ?? '';
  return {
    ...context,
    finishersDone: true,
    answer: { text, ...omitUndefined({ output: event.output }) },
  };
}

/** Sends the feedback to the model as a message; `decideNextAction` limits the number of rejections. */
function rejectAnswer(context: Context, { feedback, code }: Of<'finishers.rejected'>): Context {
  const message: Item = { type: 'message', role: 'developer', content: [{ type: 'text', text: feedback }] };
  return {
    ...context,
    rejections: context.rejections + 1,
    sentBack: { code: code ?? 'finishers-rejected', feedback },
    transcript: [...context.transcript, message],
  };
}

/** Active time counts only while a call runs, so the time in which no process drove the run does not count. */
function beginActivity(context: Context, at: number): Context {
  return isBusy(context) ? context : { ...context, activeSince: at };
}

function endActivity(context: Context, at: number): Context {
  const since = context.activeSince;
  return since === null || since === at
    ? context
    : { ...context, activeMs: context.activeMs + Math.max(0, at - since), activeSince: at };
}

function setBreakpoints(
  { matched: _, ...context }: Context,
  { breakpoints, matched }: Of<'breakpoints.set'>,
): Context {
  return { ...context, breakpoints, ...omitUndefined({ matched }) };
}
