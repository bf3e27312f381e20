import type { Store } from '../protocol/store.ts';
import { elapsedSince, type Host, type Moment, momentOf } from './host.ts';

/** The lease on a run that this process holds, under one epoch. */
export class Lease {
  readonly epoch: number;
  readonly #where: { store: Store; host: Host; runId: string };
  readonly #leaseMs: number;
  /** Right before the lease was asked for last: it holds from then. */
  #renewedAt: Moment;

  constructor(
    where: { store: Store; host: Host; runId: string },
    { epoch, leaseMs, leasedAt }: { epoch: number; leaseMs: number; leasedAt: Moment },
  ) {
    this.#where = where;
    this.epoch = epoch;
    this.#leaseMs = leaseMs;
    this.#renewedAt = leasedAt;
  }

  get isValid(): boolean {
    return elapsedSince(this.#renewedAt, this.#where.host) < this.#leaseMs;
  }

  /** Renews it once this part of its time has passed; false when another process has the run. */
  async renewAfter(part: number): Promise<boolean> {
    const { store, host, runId } = this.#where;
    if (elapsedSince(this.#renewedAt, host) < this.#leaseMs * part) return true;
    const asked = momentOf(host);
    host.reach?.('renew.before');
    const isHeld = await store.renew(runId, this.epoch, asked.wall + this.#leaseMs);
    if (isHeld) this.#renewedAt = asked;
    host.reach?.('renew.after');
    return isHeld;
  }

  async release(): Promise<void> {
    const { store, host, runId } = this.#where;
    host.reach?.('release.before');
    await store.release(runId, this.epoch);
    host.reach?.('release.after');
  }
}
