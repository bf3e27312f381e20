import type { JsonCall, RunView } from '../../data/request.ts';

/** The id of an open decision: another one if the call, its input or its status is another. */
export function keyOf({ runId, callId, status, digest }: JsonCall): string {
  return `${runId} ${callId} ${status} ${digest}`;
}

/** Returns the calls of a run and its sub-agents that a person has to decide, doubts first. */
export function openDecisions(view: RunView | null): JsonCall[] {
  if (view === null) return [];
  const own = view.calls.filter(
    ({ status, waitsFor }) =>
      status === 'gated' || status === 'doubted' || (status === 'waiting' && waitsFor === undefined),
  );
  const { settled } = view;
  const below =
    settled?.status === 'waiting'
      ? [...settled.doubts, ...settled.approvals, ...settled.results].filter(
          call => call.runId !== view.runId && call.waitsFor === undefined,
        )
      : [];
  const all = [...own, ...(below as JsonCall[])];
  return ORDER.flatMap(status => all.filter(call => call.status === status));
}

const ORDER = ['doubted', 'gated', 'waiting'] as const;
