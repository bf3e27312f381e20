import type { ActivityKind } from './activity-kind.ts';
import type { CallRecord } from './call-facts.ts';

/** A part of a call's time; `from` and `to` in ms since the epoch. */
export type CallSpan = { kind: ActivityKind | 'failed'; from: number; to: number };

/** The spans of a call's time, and its outcome unless it is a plain result. `now` is the end of a span in progress. */
export function callSpans(
  { call, madeAt, events }: CallRecord,
  now: number,
): { spans: CallSpan[]; outcome: string } {
  const spans: CallSpan[] = [];
  let open: { kind: CallSpan['kind']; from: number } | null = call.gate
    ? { kind: 'person', from: madeAt }
    : null;
  if (!call.gate && call.executedBy === 'client') open = { kind: 'wait', from: madeAt };
  let outcome = call.error === undefined ? '' : 'cannot run';
  const close = (to: number): void => {
    if (open !== null) spans.push({ ...open, to });
    open = null;
  };
  for (const event of events) {
    const { at } = event;
    switch (event.type) {
      case 'approval.decided':
        close(at);
        outcome = OUTCOMES[event.decision.type];
        if (event.decision.type === 'reject' && event.decision.reason !== undefined)
          outcome += `: ${event.decision.reason}`;
        break;
      case 'tool.started':
        close(at);
        open = { kind: 'tool', from: at };
        if (event.attempt > 1) outcome = `attempt ${event.attempt}`;
        break;
      case 'tool.interrupted':
        close(at);
        outcome = 'interrupted';
        break;
      case 'tool.doubted':
        close(at);
        open = { kind: 'doubt', from: at };
        outcome = 'in doubt';
        break;
      case 'tool.suspended':
        close(at);
        open = { kind: 'wait', from: at };
        outcome = 'sub-agent';
        break;
      case 'doubt.resolved':
        close(at);
        outcome = `in doubt, then ${event.resolution.type}`;
        break;
      case 'tool.settled':
      case 'result.received':
        close(at);
        if (event.isError) outcome = 'error';
        break;
      default:
    }
  }
  if (open !== null) close(now);
  return { spans, outcome };
}

const OUTCOMES = { approve: 'approved', reject: 'rejected', answer: 'answered' } as const;
