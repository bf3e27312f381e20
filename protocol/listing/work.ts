import { EngineError } from '../error.ts';
import { isJsonObject } from '../json.ts';
import type { Owner } from './owner.ts';
import type { RunStatus } from './run-list.ts';

/** A version of the chart; the hash tells two charts of one version apart. */
export type ChartIdentity = { version: number; hash: string };

/**
 * The time of a lease. A store that several machines share decides with a clock of its own, and takes `now` only as the
 * time of the event; it shows `leaseUntil` on the caller's clock.
 */
export type LeaseTime = {
  /** The caller's time, in ms since the epoch. */
  now: number;
  leaseMs: number;
};

export type ClaimRequest = LeaseTime & {
  owner: Owner;
  /** Whether an owner with an unexpired lease is known to be gone. */
  isDead(owner: Owner): boolean;
  /** Refuses the claim if the run has ended. */
  unlessEnded?: boolean;
};

export type ClaimResult =
  | { type: 'claimed'; epoch: number; seq: number }
  | { type: 'held'; owner: Owner; until: number }
  /** The status of the run is final, and the claim was made with `unlessEnded`. */
  | { type: 'ended' };

/**
 * A change of a run's record without an entry. It is made only if the run's journal ends at `after` and its epoch is
 * `epoch`. `wakeAt` as in `Standing`.
 */
export type StandingChange = {
  runId: string;
  after: number;
  epoch: number;
  status: RunStatus;
  wakeAt?: number;
};

/**
 * Returns the error for a call about a run that has got entries, or another driver, or was redacted, since its caller
 * read it.
 */
export function changedRun(runId: string): EngineError {
  const message = `Run "${runId}" has changed since it was read, so nothing was done. Read it again and decide again.`;
  return new EngineError('refused', message, { runId, changed: true });
}

/** Whether an error is one of `changedRun`. */
export function isChangedRun(error: unknown): boolean {
  if (!(error instanceof EngineError) || error.code !== 'refused') return false;
  return isJsonObject(error.details) && error.details.changed === true;
}

/** A lease as its holder knows it. */
export type HeldLease = { runId: string; epoch: number };

/** Which runs a worker can drive, and how many it wants. */
export type WorkRequest = {
  /** The names of the agents; with `versions`, only runs that one of these versions began, or one without a version. */
  agents: readonly { name: string; versions?: readonly string[] }[];
  /** Only runs of these charts, and runs whose chart is unknown. Default: of any chart. */
  charts?: readonly ChartIdentity[];
  /** How many runs at most. */
  limit: number;
  /** For how long the runs are hidden from other requests, in ms, unless they are claimed before. */
  reserveMs: number;
  /** The caller's time, in ms since the epoch. A store with a clock of its own takes that. */
  now: number;
  /** Whether an owner with an unexpired lease is known to be gone: its runs are taken before the lease expires. */
  isDead?(owner: Owner): boolean;
  /** Called for each unreadable record. Such a run is skipped and does not affect the others. */
  onDamaged?(error: EngineError): void;
};
