import type { Owner, RunRecord } from '../protocol/store.ts';

/** A run whose lease a process holds. */
export type DrivenRun = RunRecord & { owner: Owner; leaseUntil: number };

/** Whether a process that may be alive holds the run's lease. `now`: ms since the epoch. */
export function isDriven(
  record: RunRecord,
  now: number,
  isDead: (owner: Owner) => boolean,
): record is DrivenRun {
  const { owner, leaseUntil = 0 } = record;
  return owner !== undefined && leaseUntil > now && !isDead(owner);
}
