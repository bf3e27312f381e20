import { listAll, type RunStatus, type Store } from '../../protocol/store.ts';

/** The most waiting runs that are counted. */
const MOST_WAITING = 10_000;

/** Returns how many runs of the store have each status, as they are now. */
export async function countRuns(store: Store): Promise<Record<RunStatus, number>> {
  if (store.count !== undefined) return await store.count();
  const counts = { running: 0, waiting: 0, finished: 0, failed: 0, cancelled: 0 };
  for await (const { status } of listAll(store, { onDamaged: () => {} })) counts[status] += 1;
  return counts;
}

/** Returns how many calls wait for a person or a client, without those that wait for the run of a sub-agent. */
export async function countWaits(store: Store): Promise<Record<'approval' | 'result' | 'doubt', number>> {
  const counts = { approval: 0, result: 0, doubt: 0 };
  let seen = 0;
  for await (const { waitsFor } of listAll(store, { status: 'waiting', onDamaged: () => {} })) {
    for (const { type, runId } of waitsFor ?? []) if (runId === undefined) counts[type] += 1;
    seen += 1;
    if (seen === MOST_WAITING) break;
  }
  return counts;
}
