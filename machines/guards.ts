import type { ChartEvent, QualifiedCall } from '../protocol/event.ts';
import { findCall } from './calls.ts';
import type { CallStatus, Context } from './context.ts';
import { fitsStatus } from './fold.ts';

/** Whether a report comes from the latest service start and concerns an open call. */
export function isCurrent(context: Context, event: ChartEvent): boolean {
  if (!('generation' in event) || event.generation !== context.generation) return false;
  const call = 'callId' in event ? findCall(context, event.callId) : undefined;
  return fitsStatus(event.type, call?.status);
}

/** Whether the call is gated, has not expired, and has the digest that the decision refers to. */
export function canDecide(context: Context, event: { callId: string; digest: string; at: number }): boolean {
  const call = findCall(context, event.callId);
  if (call?.status !== 'gated' || call.digest !== event.digest) return false;
  return call.expiresAt === undefined || event.at < call.expiresAt;
}

/** Whether the transcript may be edited: no batch is open, and calls that wait or are in doubt are kept. */
export function canEdit(context: Context, { calls }: { calls: readonly QualifiedCall[] }): boolean {
  if (context.batch > 0) return false;
  const digests = new Map(calls.map(({ callId, digest }) => [callId, digest]));
  return context.calls.every(
    ({ callId, status, digest }) => FREE.has(status) || digests.get(callId) === digest,
  );
}

/** Whether the latest turn may be edited: it is complete, and none of its calls has started or waits elsewhere. */
export function canEditTurn(
  context: Context,
  { turn, calls }: { turn: number; calls: readonly QualifiedCall[] },
): boolean {
  const { lastTurn, failure, sentBack, batch } = context;
  if (lastTurn?.from === undefined || turn !== context.turn.number) return false;
  if (failure !== null || sentBack !== null || batch > 0) return false;
  if (lastTurn.final && calls.length > 0) return false;
  if (context.calls.length === 0) return lastTurn.calls === 0;
  return context.calls.every(({ status, attempt }) => FREE.has(status) && attempt === 0);
}

/** Whether the call has not started, has the digest that the edit refers to, and can run as edited. */
export function canEditCall(
  context: Context,
  event: { callId: string; digest: string; call: QualifiedCall },
): boolean {
  const call = findCall(context, event.callId);
  if (call === undefined || call.digest !== event.digest) return false;
  const { callId, name, error } = event.call;
  if (callId !== call.callId || name !== call.name || error !== undefined) return false;
  return (call.status === 'ready' || call.status === 'gated') && call.attempt === 0;
}

const FREE: ReadonlySet<CallStatus> = new Set(['ready', 'gated', 'settled']);

/** Whether the call waits for a result from this sub-agent's run or, without one, from a client. */
export function isWaitingFor(
  context: Context,
  { callId, childRunId }: { callId: string; childRunId?: string },
): boolean {
  const call = findCall(context, callId);
  return call?.status === 'waiting' && call.childRunId === childRunId;
}

/** Whether the call is in doubt. */
export function isInDoubt(context: Context, callId: string): boolean {
  return findCall(context, callId)?.status === 'doubted';
}
