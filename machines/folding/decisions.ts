import type { ChartEvent } from '../../protocol/event.ts';
import { changeCall, findCall, resultOf, settleCall } from '../calls.ts';
import type { Call, Context } from '../context.ts';

type Of<Type extends ChartEvent['type']> = Extract<ChartEvent, { type: Type }>;

/** Applies a decision about a gated call: approve, reject or answer. */
export function decideApproval(context: Context, event: Of<'approval.decided'>): Context {
  const { callId, decision } = event;
  const call = findCall(context, callId);
  if (call === undefined) return context;
  const ruled = event.sticky === true ? addStickyRule(context, call.name, decision) : context;
  switch (decision.type) {
    case 'approve':
      return approveCall(ruled, call, decision);
    case 'reject':
      return settleCall(ruled, callId, { output: rejection(decision.reason), isError: true });
    case 'answer':
      return settleCall(ruled, callId, resultOf(decision));
  }
}

type Decision = Of<'approval.decided'>['decision'];

function approveCall(
  context: Context,
  call: Call,
  { input, editDigest }: Extract<Decision, { type: 'approve' }>,
) {
  const status = call.executedBy === 'client' ? 'waiting' : 'ready';
  if (input === undefined) return changeCall(context, call.callId, { status });
  const edited = changeCall(context, call.callId, {
    status,
    input,
    digest: editDigest ?? call.digest,
    edited: true,
  });
  return { ...edited, edits: [...edited.edits, { callId: call.callId, input }] };
}

/** A rule applies to later calls of the tool; an answer applies only to its own call. */
function addStickyRule(context: Context, tool: string, decision: Decision): Context {
  if (decision.type === 'answer') return context;
  const rule = {
    tool,
    decision: decision.type,
    ...(decision.type === 'reject' && decision.reason !== undefined ? { reason: decision.reason } : {}),
  };
  return { ...context, sticky: [...context.sticky.filter(other => other.tool !== tool), rule] };
}

/** Returns the result of a rejected call, which the model reads. */
export function rejection(reason: string | undefined): string {
  return reason === undefined
    ? 'Not run: the call was rejected.'
    : `Not run: the call was rejected: ${reason}`;
}

/** Applies a person's resolution of a call in doubt. */
export function resolveDoubt(context: Context, { callId, resolution }: Of<'doubt.resolved'>): Context {
  switch (resolution.type) {
    case 'retry':
      return changeCall(context, callId, { status: 'ready' });
    case 'happened':
      return settleCall(context, callId, resultOf(resolution));
    case 'failed':
      return settleCall(context, callId, { output: resolution.reason, isError: true });
  }
}
