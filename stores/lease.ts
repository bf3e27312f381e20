import type { BookkeepingEvent } from '../protocol/event.ts';
import { nameOwner } from '../protocol/owner-name.ts';
import type { ClaimRequest, ClaimResult, Owner, RunRecord } from '../protocol/store.ts';

/** Who holds a run and until when, ms since the epoch. */
export type Lease = { owner: Owner; until: number };

/** The lease a record tells of. */
export function leaseOf({ owner, leaseUntil = 0 }: RunRecord): Lease | undefined {
  return owner && { owner, until: leaseUntil };
}

/** Whether an owner that may be alive holds the lease. `now`: ms since the epoch. */
export function isHeld(
  lease: Lease | undefined,
  { now, isDead }: Pick<ClaimRequest, 'now' | 'isDead'>,
): lease is Lease {
  return lease !== undefined && lease.until > now && !isDead(lease.owner);
}

/** Why a claim is refused: another owner holds an unexpired lease and is not known to be gone. */
export function refuseClaim(
  lease: Lease | undefined,
  request: ClaimRequest,
): Extract<ClaimResult, { type: 'held' }> | undefined {
  if (lease?.owner.id === request.owner.id || !isHeld(lease, request)) return undefined;
  return { type: 'held', owner: lease.owner, until: lease.until };
}

/** What a claim leaves in the journal. `replaced`: the lease that was not released. */
export function recordClaim(
  request: ClaimRequest,
  epoch: number,
  replaced: Lease | undefined,
): BookkeepingEvent {
  const event = { type: 'run.claimed', at: request.now, by: nameOwner(request.owner), epoch } as const;
  if (replaced === undefined || replaced.owner.id === request.owner.id) return event;
  return { ...event, replaces: nameOwner(replaced.owner) };
}

/** The lease a granted claim gives. */
export function grantLease(request: ClaimRequest): Lease {
  return { owner: { ...request.owner }, until: request.now + request.leaseMs };
}
