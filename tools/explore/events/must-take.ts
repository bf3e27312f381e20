import type { ChartState } from '../../../machines/step.ts';
import type { ServiceName } from '../../../protocol/effect.ts';
import type { ChartEvent } from '../../../protocol/event.ts';
import type { Ledger, LedgerCall, Stage } from '../model/ledger.ts';
import { find } from '../model/ledger-calls.ts';

/** Whether the chart has to take an event; all others it must leave alone. The rules, without the chart's guards. */
export function mustTake(event: ChartEvent, ledger: Ledger, { status, value }: ChartState): boolean {
  if (status !== 'active') return false;
  switch (event.type) {
    case 'message.received':
    case 'step.requested':
    case 'params.changed':
    case 'run.cancelled':
      return true;
    case 'pause.requested':
      return !ledger.paused;
    case 'cancel.requested':
      return !ledger.cancelling;
    case 'run.unpaused':
      return ledger.paused;
    case 'approval.decided':
      return isOpenTo(event, find(ledger, event.callId));
    case 'result.received':
      return stands(ledger, event.callId, 'away');
    case 'doubt.resolved':
      return stands(ledger, event.callId, 'doubted');
    case 'transcript.edited': {
      const rests = typeof value === 'object' && 'resting' in value;
      const digests = new Map(event.calls.map(({ callId, digest }) => [callId, digest]));
      return rests && ledger.calls.every(entry => isFree(entry) || isKept(entry, digests));
    }
    case 'run.parked':
      return (['modelTurn', 'toolBatch', 'finishers'] as const).some(id => id in ledger.running);
    case 'text.started':
    case 'calls.started':
    case 'turn.completed':
    case 'turn.failed':
      return comesFrom('modelTurn', event, ledger);
    case 'tool.started':
      return reports(event, ledger, 'queued', 'running', 'asking');
    case 'tool.settled':
    case 'tool.doubted':
      return reports(event, ledger, 'running', 'asking');
    case 'tool.interrupted':
    case 'tool.suspended':
      return reports(event, ledger, 'running');
    case 'timer.fired':
      return comesFrom('timer', event, ledger);
    case 'finishers.completed':
    case 'finishers.rejected':
      return comesFrom('finishers', event, ledger);
  }
}

/** The call is undecided, it is the one that was seen, and its time is not over. */
function isOpenTo(
  { digest, at }: Extract<ChartEvent, { type: 'approval.decided' }>,
  entry: LedgerCall | undefined,
): boolean {
  if (entry?.stage !== 'gated' || entry.digest !== digest) return false;
  const { expiresAt } = entry.call;
  return expiresAt === undefined || at < expiresAt;
}

function comesFrom(id: ServiceName, { generation }: { generation: number }, { running }: Ledger): boolean {
  return running[id]?.generation === generation;
}

function reports(
  event: { generation: number; callId: string },
  ledger: Ledger,
  ...stages: readonly Stage[]
): boolean {
  return comesFrom('toolBatch', event, ledger) && stands(ledger, event.callId, ...stages);
}

function stands(ledger: Ledger, callId: string, ...stages: readonly Stage[]): boolean {
  const stage = find(ledger, callId)?.stage;
  return stage !== undefined && stages.includes(stage);
}

/** Nobody has it: not a batch that was left, no client, and it cannot have happened. */
function isFree({ stage }: LedgerCall): boolean {
  return stage === 'ready' || stage === 'gated' || stage === 'settled';
}

function isKept({ call, stage, digest }: LedgerCall, digests: ReadonlyMap<string, string>): boolean {
  const isOwed = stage === 'queued' || stage === 'running' || stage === 'asking';
  return !isOwed && digests.get(call.callId) === digest;
}
