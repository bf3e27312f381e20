import type { RunRecord, WorkRequest } from '../../protocol/store.ts';
import { isHeld, type Lease } from '../lease.ts';
import { isOpen } from '../run-record.ts';

/** What decides whether a run may be driven now. `reservedUntil` and `wakeAt` are in ms since the epoch. */
type Candidate = Pick<RunRecord, 'status' | 'wakeAt' | 'agent' | 'agentVersion' | 'chart'> & {
  lease: Lease | undefined;
  reservedUntil: number | undefined;
};

/** Whether a worker may take the run: see `Store.takeWork`. */
export function isWork(run: Candidate, { now, isDead = () => false, ...request }: WorkRequest): boolean {
  const { status, lease, wakeAt = Number.POSITIVE_INFINITY, reservedUntil = 0 } = run;
  if (!isOpen(run) || reservedUntil > now || isHeld(lease, { now, isDead })) return false;
  if (status === 'waiting' && lease === undefined && wakeAt > now) return false;
  return fits(run, request);
}

/** Whether the requested agents and charts include those of the run. */
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

/** The earlier of two times, of which each may be missing. */
export function earlier(one: number | undefined, other: number | undefined): number | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return Math.min(one, other);
}
