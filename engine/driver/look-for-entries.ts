import type { RunOptions } from '../run/run-options.ts';

/** How often the entries of other processes are looked for in a store that sends no notifications, in ms. */
export const POLL_MS = 150;

/** The same in a store that notifies of inputs and claims, in ms: for what it did not report. */
const WATCHED_POLL_MS = 5_000;

/**
 * Calls `look` when other processes may have appended to the run: when the store tells, and at intervals. The intervals
 * are also those at which a lease can be renewed in time. One call at a time; a change during a call causes another.
 * Returns a function that ends it.
 */
export function lookForEntries(
  { store, host, runId, leaseMs }: Pick<RunOptions, 'store' | 'host' | 'runId' | 'leaseMs'>,
  look: () => Promise<void>,
): () => void {
  let isOver = false;
  let isLooking = false;
  let isTold = false;
  let cancelTimer = () => {};
  const lookNow = async () => {
    isTold = true;
    if (isLooking) return;
    isLooking = true;
    while (isTold && !isOver) {
      isTold = false;
      await look();
    }
    isLooking = false;
  };
  const endWatching = store.watch?.(runId, () => void lookNow());
  const intervalMs = endWatching === undefined ? POLL_MS : Math.min(WATCHED_POLL_MS, Math.ceil(leaseMs / 3));
  const schedule = () => {
    cancelTimer = host.setTimer(intervalMs, () => {
      void lookNow().finally(() => isOver || schedule());
    });
  };
  schedule();
  return () => {
    isOver = true;
    cancelTimer();
    endWatching?.();
  };
}
