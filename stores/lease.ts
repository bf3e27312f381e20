import { EngineError } from '../protocol/error.ts';
import type { BookkeepingEvent } from '../protocol/event.ts';
import { nameOwner } from '../protocol/owner-name.ts';
import {
  type ClaimRequest,
  type ClaimResult,
  isOpen,
  type Owner,
  type RunRecord,
  type WorkRequest,
} from '../protocol/store.ts';

export type StoredLease = { owner: Owner; until: number };

export function leaseOf({ owner, leaseUntil = 0 }: RunRecord): StoredLease | undefined {
  return owner && { owner, until: leaseUntil };
}

/** Whether the lease is unexpired and its owner may be alive. `now` is in ms since the epoch. */
function isHeld(
  lease: StoredLease | undefined,
  { now, isDead }: Pick<ClaimRequest, 'now' | 'isDead'>,
): lease is StoredLease {
  return lease !== undefined && lease.until > now && !isDead(lease.owner);
}

/** Throws `refused` if the lease of a run to be deleted or redacted is held. `until` is in the error's details. */
export function assertUndriven(
  runId: string,
  lease: StoredLease | undefined,
  request: Pick<ClaimRequest, 'now' | 'isDead'>,
  operation: 'deleted' | 'redacted',
): void {
  if (!isHeld(lease, request)) return;
  const { owner, until } = lease;
  throw new EngineError(
    'refused',
    `Run "${runId}" is driven by process ${owner.pid} on ${owner.host}, so it cannot be ${operation}. Cancel it or wait until it rests, then try again.`,
    { runId, pid: owner.pid, until },
  );
}

export function refuseClaim(
  lease: StoredLease | undefined,
  request: Pick<ClaimRequest, 'owner' | 'now' | 'isDead'>,
): Extract<ClaimResult, { type: 'held' }> | undefined {
  if (lease?.owner.id === request.owner.id || !isHeld(lease, request)) return undefined;
  return { type: 'held', owner: lease.owner, until: lease.until };
}

export function recordClaim(
  request: ClaimRequest,
  epoch: number,
  replaced: StoredLease | undefined,
): BookkeepingEvent {
  const event = { type: 'run.claimed', at: request.now, by: nameOwner(request.owner), epoch } as const;
  if (replaced === undefined || replaced.owner.id === request.owner.id) return event;
  return { ...event, replaces: nameOwner(replaced.owner) };
}

export function grantLease(request: ClaimRequest): StoredLease {
  return { owner: { ...request.owner }, until: request.now + request.leaseMs };
}

/** What decides whether a run may be driven now. `reservedUntil` and `wakeAt` are in ms since the epoch. */
type Candidate = Pick<RunRecord, 'status' | 'agent' | 'agentVersion' | 'chart'> & {
  wakeAt?: number | undefined;
  lease: StoredLease | undefined;
  reservedUntil: number | undefined;
};

/** Whether a worker may take the run: see `Store.takeWork`. */
export function isWork(run: Candidate, { now, isDead = () => false, ...request }: WorkRequest): boolean {
  const { status, lease, wakeAt = Number.POSITIVE_INFINITY, reservedUntil = 0 } = run;
  if (!isOpen(run) || reservedUntil > now || isHeld(lease, { now, isDead })) return false;
  if (status === 'waiting' && lease === undefined && wakeAt > now) return false;
  return fits(run, request);
}

function fits(
  { agent, agentVersion, chart }: Candidate,
  { agents, charts }: Pick<WorkRequest, 'agents' | 'charts'>,
): boolean {
  const isAgent = agents.some(
    ({ name, versions }) =>
      name === agent &&
      (versions === undefined || agentVersion === undefined || versions.includes(agentVersion)),
  );
  if (!isAgent || chart === undefined || charts === undefined) return isAgent;
  return charts.some(({ version, hash }) => version === chart.version && hash === chart.hash);
}

/** The stored time of the next wake-up after an append at `now`: a time that has come stays. */
export function nextWakeAt(
  stored: number | undefined,
  wakeAt: number | undefined,
  now: number,
): number | undefined {
  return stored !== undefined && stored <= now ? stored : wakeAt;
}

export function earlier(one: number | undefined, other: number | undefined): number | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return Math.min(one, other);
}
