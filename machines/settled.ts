import type { ChartEvent } from '../protocol/event.ts';
import { omitUndefined } from '../protocol/json.ts';
import type { JsonCall, Settled } from '../protocol/run-view.ts';
import { callsWith } from './calls.ts';
import type { Call, Context } from './context.ts';
import { toolResults } from './tool-results.ts';

/** How a run ended: the output of the machine. */
export type Ended = Exclude<Settled, { status: 'waiting' }>;

type In<Status extends Settled['status']> = Extract<Settled, { status: Status }>;

/** Describes a run that finished. `text` is the answer before text filters, which the chart does not know. */
export function describeFinished(context: Context): In<'finished'> {
  const { answer, next, inbox } = context;
  const reason = next?.type === 'finish' ? next.reason : undefined;
  return {
    ...spentIn(context),
    status: 'finished',
    text: answer?.text ?? '',
    results: toolResults(context),
    unread: inbox,
    ...omitUndefined({ output: answer?.output }),
    ...(reason === undefined ? {} : { incomplete: { reason } }),
  };
}

/** Describes a run that failed. */
export function describeFailed(context: Context): In<'failed'> {
  const { next } = context;
  if (next?.type !== 'fail') throw new Error('expected the next action of a failed run to be "fail"');
  return { ...spentIn(context), status: 'failed', error: { code: next.code, message: next.message } };
}

/** Describes a run that was cancelled. */
export function describeCancelled(context: Context): In<'cancelled'> {
  return { ...spentIn(context), status: 'cancelled', unsettled: listOpenCalls(context) };
}

/** Describes a run that rests. */
export function describeWaiting(context: Context): In<'waiting'> {
  const { paused, quarantined } = context;
  return {
    ...spentIn(context),
    status: 'waiting',
    approvals: callsWith(context, 'gated').map(call => openCall(context, call)),
    results: callsWith(context, 'waiting').map(call => openCall(context, call)),
    doubts: callsWith(context, 'doubted').map(call => openCall(context, call)),
    paused,
    ...(quarantined === null ? {} : { reason: quarantined }),
  };
}

/** Returns the event that ends a run as cancelled, without its time. */
export function describeCancel(
  context: Context,
  { by, reason }: { by?: string; reason?: string },
): Omit<Extract<ChartEvent, { type: 'run.cancelled' }>, 'at'> {
  const unsettled = listOpenCalls(context).map(call => call.callId);
  return { type: 'run.cancelled', unsettled, ...omitUndefined({ reason, by }) };
}

/** Returns the calls of the open round that have no result. */
export function listOpenCalls(context: Context): JsonCall[] {
  return context.calls.filter(call => call.status !== 'settled').map(call => openCall(context, call));
}

const spentIn = ({ usage, turns }: Context) => ({ usage, turns });

function openCall(context: Context, call: Call): JsonCall {
  const reason = call.doubt ?? call.reason;
  return {
    callId: call.callId,
    runId: call.childRunId ?? context.runId,
    name: call.name,
    input: call.input,
    digest: call.digest,
    sideEffect: call.sideEffect,
    status: call.status === 'settled' ? 'ready' : call.status,
    ...omitUndefined({ waitsFor: call.childRunId, reason, expiresAt: call.expiresAt }),
  };
}
