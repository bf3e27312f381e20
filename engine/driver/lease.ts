import type { RunOptions } from '../run/run-options.ts';
import { elapsedSince, type Moment, momentOf } from './host.ts';

/** `leasedAt`: the moment right before the claim. */
type LeaseOptions = Pick<RunOptions, 'store' | 'host' | 'runId' | 'leaseMs'> & {
  epoch: number;
  leasedAt: Moment;
};

/** This process's lease on a run. It is valid for `leaseMs` from the moment of the last claim or renewal request. */
export class Lease {
  readonly #options: LeaseOptions;
  #renewedAt: Moment;

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.#renewedAt = options.leasedAt;
  }

  /** Whether the lease has not expired, by this process's clocks. */
  get isValid(): boolean {
    const { host, leaseMs } = this.#options;
    return elapsedSince(this.#renewedAt, host) < leaseMs;
  }

  /** Renews the lease if this part of its time (0 to 1) has passed. Returns false if another process drives the run. */
  async renewAfter(part: number): Promise<boolean> {
    const { store, host, runId, epoch, leaseMs } = this.#options;
    if (elapsedSince(this.#renewedAt, host) < leaseMs * part) return true;
    const asked = momentOf(host);
    host.reach?.('renew.before');
    const isHeld = await store.renew(runId, epoch, { now: asked.wall, leaseMs });
    if (isHeld) this.#renewedAt = asked;
    host.reach?.('renew.after');
    return isHeld;
  }

  /** Gives the lease back, so that another process can claim the run. */
  async release(): Promise<void> {
    const { store, host, runId, epoch } = this.#options;
    host.reach?.('release.before');
    await store.release(runId, epoch);
    host.reach?.('release.after');
  }
}
