import type { Context } from '../../machines/context.ts';
import { QUARANTINED, receiving, resolving } from './client-events.ts';
import { answering, failing, settling, starting, type UntimedEvent } from './make-events.ts';

/** Returns reports from an older start or in the wrong state, and decisions about unknown calls. */
export function listInvalidEvents(
  { generation, calls, paused, cancelling }: Context,
  place: string,
): UntimedEvent[] {
  const callId = calls.find(({ status }) => status === 'running')?.callId ?? calls[0]?.callId ?? 'unknown';
  const reports: UntimedEvent[] = [
    { type: 'text.started' },
    answering('stale'),
    failing(),
    starting(callId),
    settling(callId, { output: 'stale' }),
    { type: 'tool.interrupted', callId },
    { type: 'tool.doubted', callId, reason: 'stale' },
    { type: 'tool.suspended', callId, childRunId: 'child' },
    { type: 'timer.fired' },
    { type: 'finishers.completed' },
    { type: 'finishers.rejected', feedback: 'stale' },
  ];
  const unknown = { callId: 'unknown', digest: 'unknown' };
  return [
    ...reports.map(report => ({ ...report, generation: generation - 1 })),
    ...reports.filter(({ type }) => !belongs(type, place)),
    { type: 'approval.decided', ...unknown, decision: { type: 'approve' } },
    receiving('unknown', 'stale'),
    resolving('unknown', { type: 'retry' }),
    { type: paused ? 'pause.requested' : 'run.unpaused' },
    ...(cancelling === null ? [] : [{ type: 'cancel.requested', deadline: cancelling.deadline } as const]),
    ...(belongs('run.quarantined', place) ? [] : [QUARANTINED]),
  ];
}

/** Whether an event of the type may be valid in the state. A timer can only fire where one was started. */
function belongs(type: UntimedEvent['type'], place: string): boolean {
  if (type === 'run.quarantined') return /^(turn|executingTools|finishing)/.test(place);
  if (type.startsWith('tool.')) return place === 'executingTools';
  if (type.startsWith('finishers.')) return place === 'finishing';
  if (type === 'timer.fired') return place === 'backingOff' || place.startsWith('resting');
  return place.startsWith('turn');
}
