import type { Owner, RunRecord } from '../protocol/store.ts';

/** Whether a process that may be alive holds the run's lease. `now`: ms since the epoch. */
export function isDriven(
  { owner, leaseUntil = 0 }: RunRecord,
  now: number,
  isDead: (owner: Owner) => boolean,
): boolean {
  return owner !== undefined && leaseUntil > now && !isDead(owner);
}
