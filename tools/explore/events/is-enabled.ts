import type { ChartState } from '../../../machines/step.ts';
import type { ServiceName } from '../../../protocol/effect.ts';
import type { ChartEvent } from '../../../protocol/event.ts';
import { find } from '../reference/reference-calls.ts';
import type { ReferenceCall, ReferenceModel, Stage } from '../reference/reference-model.ts';

/** Whether the chart has to take an event; all others it must leave alone. The rules, without the chart's guards. */
export function isEnabled(
  event: ChartEvent,
  reference: ReferenceModel,
  { status, value }: ChartState,
): boolean {
  if (status !== 'active') return false;
  switch (event.type) {
    case 'message.received':
    case 'step.requested':
    case 'params.changed':
    case 'run.cancelled':
      return true;
    case 'pause.requested':
      return !reference.paused;
    case 'cancel.requested':
      return !reference.cancelling;
    case 'run.unpaused':
      return reference.paused;
    case 'approval.decided':
      return isOpenTo(event, find(reference, event.callId));
    case 'result.received':
      return stands(reference, event.callId, 'away');
    case 'doubt.resolved':
      return stands(reference, event.callId, 'doubted');
    case 'transcript.edited': {
      const rests = typeof value === 'object' && 'resting' in value;
      const digests = new Map(event.calls.map(({ callId, digest }) => [callId, digest]));
      return rests && reference.calls.every(entry => isFree(entry) || isKept(entry, digests));
    }
    case 'run.quarantined':
      return (['modelTurn', 'toolBatch', 'finishers'] as const).some(id => id in reference.running);
    case 'text.started':
    case 'calls.started':
    case 'turn.completed':
    case 'turn.failed':
      return comesFrom('modelTurn', event, reference);
    case 'tool.started':
      return reports(event, reference, 'queued', 'running', 'asking');
    case 'tool.settled':
    case 'tool.doubted':
      return reports(event, reference, 'running', 'asking');
    case 'tool.interrupted':
    case 'tool.suspended':
      return reports(event, reference, 'running');
    case 'timer.fired':
      return comesFrom('timer', event, reference);
    case 'finishers.completed':
    case 'finishers.rejected':
      return comesFrom('finishers', event, reference);
  }
}

/** The call is undecided, it is the one that was seen, and its time is not over. */
function isOpenTo(
  { digest, at }: Extract<ChartEvent, { type: 'approval.decided' }>,
  entry: ReferenceCall | undefined,
): boolean {
  if (entry?.stage !== 'gated' || entry.digest !== digest) return false;
  const { expiresAt } = entry.call;
  return expiresAt === undefined || at < expiresAt;
}

function comesFrom(
  id: ServiceName,
  { generation }: { generation: number },
  { running }: ReferenceModel,
): boolean {
  return running[id]?.generation === generation;
}

function reports(
  event: { generation: number; callId: string },
  reference: ReferenceModel,
  ...stages: readonly Stage[]
): boolean {
  return comesFrom('toolBatch', event, reference) && stands(reference, event.callId, ...stages);
}

function stands(reference: ReferenceModel, callId: string, ...stages: readonly Stage[]): boolean {
  const stage = find(reference, callId)?.stage;
  return stage !== undefined && stages.includes(stage);
}

/** Nobody has it: not a batch that was left, no client, and it cannot have happened. */
function isFree({ stage }: ReferenceCall): boolean {
  return stage === 'ready' || stage === 'gated' || stage === 'settled';
}

function isKept({ call, stage, digest }: ReferenceCall, digests: ReadonlyMap<string, string>): boolean {
  const isOwed = stage === 'queued' || stage === 'running' || stage === 'asking';
  return !isOwed && digests.get(call.callId) === digest;
}
