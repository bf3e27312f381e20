import { hasEnded } from '../../machines/standing.ts';
import type { ChartState } from '../../machines/step.ts';
import type { RunEvent } from '../../protocol/event.ts';
import type { Attributes } from './run-span.ts';

/** A wait in progress: its first entry, its time, and its reason. */
export type OpenWait = { seq: number; start: number; attributes: Attributes };

const WAITED_FOR = { gated: 'approval', waiting: 'result', doubted: 'resolution' } as const;

/** The waits of a run in this state, by call id, without calls that wait for a sub-agent's run. */
export function waitsIn(state: ChartState): Map<string, Pick<OpenWait, 'attributes'>> {
  const waits = new Map<string, Pick<OpenWait, 'attributes'>>();
  if (hasEnded(state)) return waits;
  const { calls, paused } = state.context;
  for (const { callId, name, status, childRunId } of calls) {
    if (childRunId !== undefined || !(status in WAITED_FOR)) continue;
    const attributes = {
      'agentchart.wait.for': WAITED_FOR[status as keyof typeof WAITED_FOR],
      'gen_ai.tool.name': name,
      'gen_ai.tool.call.id': callId,
    };
    waits.set(`${status}:${callId}`, { attributes });
  }
  if (paused) waits.set('paused', { attributes: { 'agentchart.wait.for': 'unpause' } });
  return waits;
}

/** How an event ended a wait. With `content`, also who decided. */
export function outcomeOfWait(event: RunEvent, { content }: { content: boolean }): Attributes {
  const by = 'by' in event && event.type !== 'run.claimed' ? event.by : undefined;
  return {
    'agentchart.wait.outcome': nameOutcome(event),
    ...(content && by !== undefined && { 'agentchart.wait.by': by }),
  };
}

function nameOutcome(event: RunEvent): string {
  switch (event.type) {
    case 'approval.decided':
      return event.decision.type;
    case 'doubt.resolved':
      return event.resolution.type;
    case 'result.received':
      return event.isError ? 'failed' : 'answered';
    case 'message.received':
      return 'superseded';
    case 'timer.fired':
      return 'expired';
    case 'run.unpaused':
    case 'step.requested':
      return 'unpaused';
    case 'run.cancelled':
    case 'cancel.requested':
      return 'cancelled';
    default:
      return 'settled';
  }
}
