import { listOpen } from '../../machines/settled.ts';
import { hasEnded } from '../../machines/status.ts';
import type { ChartState } from '../../machines/step.ts';
import type { RunEvent } from '../../protocol/event.ts';
import type { Open } from '../../protocol/run-view.ts';
import type { Attributes } from './run-span.ts';

/** A wait in progress: its first entry, its time, and its reason. */
export type OpenWait = { seq: number; start: number; attributes: Attributes };

/** What a wait is for, and its place, from which the id of its span is derived. */
const WAITS: Readonly<Record<Open['kind'], { waitsFor: string; place: string }>> = {
  approval: { waitsFor: 'approval', place: 'gated' },
  result: { waitsFor: 'result', place: 'waiting' },
  doubt: { waitsFor: 'resolution', place: 'doubted' },
  pause: { waitsFor: 'unpause', place: 'paused' },
};

/** The waits of a run in this state, one for each open thing, by their places. */
export function waitsIn(state: ChartState): Map<string, Pick<OpenWait, 'attributes'>> {
  const waits = new Map<string, Pick<OpenWait, 'attributes'>>();
  if (hasEnded(state)) return waits;
  for (const open of listOpen(state.context)) {
    const { waitsFor, place } = WAITS[open.kind];
    const call = 'callId' in open && { 'gen_ai.tool.name': open.name, 'gen_ai.tool.call.id': open.callId };
    const attributes = { 'agentchart.wait.for': waitsFor, ...call };
    waits.set('callId' in open ? `${place}:${open.callId}` : place, { attributes });
  }
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
