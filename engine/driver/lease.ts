import type { RunOptions } from '../run/run-options.ts';
import { elapsedSince, type Moment, momentOf } from './host.ts';

/** `leasedAt`: right before the lease was asked for. */
export type LeaseOptions = Pick<RunOptions, 'store' | 'host' | 'runId' | 'leaseMs'> & {
  epoch: number;
  leasedAt: Moment;
};

/** The lease on a run that this process holds, under one epoch. It holds from when it was asked for last. */
export class Lease {
  readonly #options: LeaseOptions;
  #renewedAt: Moment;

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.#renewedAt = options.leasedAt;
  }

  get isValid(): boolean {
    const { host, leaseMs } = this.#options;
    return elapsedSince(this.#renewedAt, host) < leaseMs;
  }

  /** Renews it once this part of its time has passed; false when another process has the run. */
  async renewAfter(part: number): Promise<boolean> {
    const { store, host, runId, epoch, leaseMs } = this.#options;
    if (elapsedSince(this.#renewedAt, host) < leaseMs * part) return true;
    const asked = momentOf(host);
    host.reach?.('renew.before');
    const isHeld = await store.renew(runId, epoch, asked.wall + leaseMs);
    if (isHeld) this.#renewedAt = asked;
    host.reach?.('renew.after');
    return isHeld;
  }

  async release(): Promise<void> {
    const { store, host, runId, epoch } = this.#options;
    host.reach?.('release.before');
    await store.release(runId, epoch);
    host.reach?.('release.after');
  }
}
