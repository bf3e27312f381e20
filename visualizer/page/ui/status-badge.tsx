import type { RunSummary } from '../data/request.ts';

/** The status of a run, in its colour and in words. */
export function StatusBadge({ status }: { status: RunSummary['status'] }) {
  return <span class={`status is-${status}`}>{status}</span>;
}
