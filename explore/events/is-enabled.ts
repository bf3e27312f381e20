import type { CallStatus } from '../../machines/context.ts';
import type { ChartState } from '../../machines/step.ts';
import type { ServiceName } from '../../protocol/effect.ts';
import type { ChartEvent } from '../../protocol/event.ts';
import { find } from '../reference/reference-calls.ts';
import type { ReferenceCall, ReferenceModel } from '../reference/reference-model.ts';

/** Whether the chart must accept the event; it must ignore all others. States the rules independently of the chart's guards. */
export function isEnabled(
  event: ChartEvent,
  reference: ReferenceModel,
  { status, value, context }: ChartState,
): boolean {
  if (status !== 'active') return false;
  switch (event.type) {
    case 'message.received':
    case 'step.requested':
    case 'params.changed':
    case 'breakpoints.set':
    case 'run.cancelled':
      return true;
    case 'pause.requested':
      return !reference.paused;
    case 'cancel.requested':
      return !reference.cancelling;
    case 'run.unpaused':
      return reference.paused;
    case 'approval.decided':
      return isDecidable(event, find(reference, event.callId));
    case 'result.received':
      return (
        hasStage(reference, event.callId, 'waiting') &&
        find(reference, event.callId)?.childRunId === event.childRunId
      );
    case 'doubt.resolved':
      return hasStage(reference, event.callId, 'doubted');
    case 'transcript.edited': {
      const digests = new Map(event.calls.map(({ callId, digest }) => [callId, digest]));
      return isResting(value) && reference.calls.every(entry => isFree(entry) || isKept(entry, digests));
    }
    case 'turn.edited':
      return (
        isResting(value) && event.turn === context.turn.number && isEditable(reference, event.calls.length)
      );
    case 'call.edited': {
      const entry = find(reference, event.callId);
      const isOpen = entry?.stage === 'ready' || entry?.stage === 'gated';
      return isOpen && entry.starts === 0 && entry.digest === event.digest && event.call.error === undefined;
    }
    case 'run.quarantined':
      return (['modelTurn', 'toolBatch', 'finishers'] as const).some(id => id in reference.running);
    case 'text.started':
    case 'calls.started':
    case 'turn.completed':
    case 'turn.failed':
      return isCurrentReport('modelTurn', event, reference);
    case 'tool.started':
      return isReportFor(event, reference, 'queued', 'running', 'reconciling');
    case 'tool.settled':
    case 'tool.doubted':
      return isReportFor(event, reference, 'running', 'reconciling');
    case 'tool.interrupted':
    case 'tool.suspended':
      return isReportFor(event, reference, 'running');
    case 'timer.fired':
      return isCurrentReport('timer', event, reference);
    case 'finishers.completed':
    case 'finishers.rejected':
      return isCurrentReport('finishers', event, reference);
  }
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

function isCurrentReport(
  id: ServiceName,
  { generation }: { generation: number },
  { running }: ReferenceModel,
): boolean {
  return running[id]?.generation === generation;
}

function isReportFor(
  event: { generation: number; callId: string },
  reference: ReferenceModel,
  ...stages: readonly CallStatus[]
): boolean {
  return isCurrentReport('toolBatch', event, reference) && hasStage(reference, event.callId, ...stages);
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
