import type { ChartEvent, QualifiedCall } from '../protocol/event.ts';
import { findCall } from './calls.ts';
import type { CallStatus, Context } from './context.ts';

/** Which statuses a report about a call fits: any other is stale, or about a call that is over. */
const FITTING: Partial<Record<ChartEvent['type'], readonly CallStatus[]>> = {
  'tool.started': ['queued', 'running', 'reconciling'],
  'tool.settled': ['running', 'reconciling'],
  'tool.interrupted': ['running'],
  'tool.doubted': ['running', 'reconciling'],
  'tool.suspended': ['running'],
};

/** A report of the service that was started last, about something that is still open. */
export function isCurrent(context: Context, event: ChartEvent): boolean {
  if (!('generation' in event) || event.generation !== context.generation) return false;
  const fitting = FITTING[event.type];
  if (fitting === undefined || !('callId' in event)) return true;
  const call = findCall(context, event.callId);
  return call !== undefined && fitting.includes(call.status);
}

/** The call is gated and unexpired, and it is the one that was seen. */
export function canDecide(context: Context, event: { callId: string; digest: string; at: number }): boolean {
  const call = findCall(context, event.callId);
  if (call?.status !== 'gated' || call.digest !== event.digest) return false;
  return call.expiresAt === undefined || event.at < call.expiresAt;
}

/** What was handed to somebody else, or may have happened, is not edited away; what a batch still owes keeps the round as it is. */
export function canEdit(context: Context, { calls }: { calls: readonly QualifiedCall[] }): boolean {
  if (context.batch > 0) return false;
  const digests = new Map(calls.map(({ callId, digest }) => [callId, digest]));
  return context.calls.every(
    ({ callId, status, digest }) => FREE.has(status) || digests.get(callId) === digest,
  );
}

const FREE: ReadonlySet<CallStatus> = new Set(['ready', 'gated', 'settled']);

export function isWaitingFor(context: Context, callId: string): boolean {
  return findCall(context, callId)?.status === 'waiting';
}

export function isInDoubt(context: Context, callId: string): boolean {
  return findCall(context, callId)?.status === 'doubted';
}
