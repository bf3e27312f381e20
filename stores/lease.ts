import type { BookkeepingEvent } from '../protocol/event.ts';
import { nameOwner } from '../protocol/owner-name.ts';
import type { ClaimRequest, ClaimResult, Owner, RunRecord } from '../protocol/store.ts';

/** The driver that holds a run, and when the lease expires, in ms since the epoch. */
export type Lease = { owner: Owner; until: number };

/** Returns the lease in a record, if any. */
export function leaseOf({ owner, leaseUntil = 0 }: RunRecord): Lease | undefined {
  return owner && { owner, until: leaseUntil };
}

/** Whether the lease is unexpired and its owner may be alive. `now` is in ms since the epoch. */
export function isHeld(
  lease: Lease | undefined,
  { now, isDead }: Pick<ClaimRequest, 'now' | 'isDead'>,
): lease is Lease {
  return lease !== undefined && lease.until > now && !isDead(lease.owner);
}

/** Returns the refusal of a claim if another owner, not known to be dead, holds an unexpired lease. */
export function refuseClaim(
  lease: Lease | undefined,
  request: Pick<ClaimRequest, 'owner' | 'now' | 'isDead'>,
): Extract<ClaimResult, { type: 'held' }> | undefined {
  if (lease?.owner.id === request.owner.id || !isHeld(lease, request)) return undefined;
  return { type: 'held', owner: lease.owner, until: lease.until };
}

/** Returns the event of a claim. `replaced` is the previous lease, if it was not released. */
export function recordClaim(
  request: ClaimRequest,
  epoch: number,
  replaced: Lease | undefined,
): BookkeepingEvent {
  const event = { type: 'run.claimed', at: request.now, by: nameOwner(request.owner), epoch } as const;
  if (replaced === undefined || replaced.owner.id === request.owner.id) return event;
  return { ...event, replaces: nameOwner(replaced.owner) };
}

/** Returns the lease of a granted claim. */
export function grantLease(request: ClaimRequest): Lease {
  return { owner: { ...request.owner }, until: request.now + request.leaseMs };
}
