import type { BookkeepingEvent } from '../protocol/event.ts';
import { nameOwner } from '../protocol/owner-name.ts';
import { type ClaimRequest, type ClaimResult, isDriven, type Owner } from '../protocol/store.ts';

/** Who holds a run and until when, ms since the epoch. */
export type Lease = { owner: Owner; until: number };

/** Why a claim is refused: another owner holds an unexpired lease and is not known to be gone. */
export function refuseClaim(
  lease: Lease | undefined,
  request: ClaimRequest,
): Extract<ClaimResult, { type: 'held' }> | undefined {
  if (lease === undefined || lease.owner.id === request.owner.id) return undefined;
  if (!isDriven({ owner: lease.owner, leaseUntil: lease.until }, request.now, request.isDead))
    return undefined;
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
