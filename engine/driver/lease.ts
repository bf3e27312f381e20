import { oncePer } from '../../protocol/once-per.ts';
import type { Store } from '../../protocol/store.ts';
import { elapsedSince, type HostMoment, momentOf } from '../host/host.ts';
import type { RunOptions } from './run-options.ts';

/** `leasedAt`: the moment right before the claim. */
type LeaseOptions = Pick<RunOptions, 'store' | 'host' | 'runId' | 'leaseMs'> & {
  epoch: number;
  leasedAt: HostMoment;
};

/** The leases of this process by store, and the renewal on its way. */
type Held = { leases: Set<Lease>; renewal: Promise<void> | null };

const heldIn = oncePer((_store: Store): Held => ({ leases: new Set(), renewal: null }));

/** A store that always takes longer than the lease must not hold up what needs no valid lease. */
const MOST_RENEWALS = 3;

/** A lease on a run, valid for `leaseMs` from its last claim or renewal. One renewal renews all of a store, to cost few calls. */
export class Lease {
  readonly #options: LeaseOptions;
  #renewedAt: HostMoment;
  #isLost = false;

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.#renewedAt = options.leasedAt;
    this.#held.leases.add(this);
  }

  get #held(): Held {
    return heldIn(this.#options.store);
  }

  get isValid(): boolean {
    return !this.#isLost && this.#age < this.#options.leaseMs;
  }

  get #age(): number {
    return elapsedSince(this.#renewedAt, this.#options.host);
  }

  /** Whether this process has the lease and less than this part of its time (0 to 1) has passed. */
  isFreshUntil(part: number): boolean {
    return !this.#isLost && this.#age < this.#options.leaseMs * part;
  }

  /**
   * Renews the lease if this part of its time (0 to 1) has passed; again, a few times, if the store took longer than the
   * lease. Returns false if another process drives the run.
   */
  async renewAfter(part: number): Promise<boolean> {
    if (this.#isLost || this.isFreshUntil(part)) return !this.#isLost;
    const held = this.#held;
    await held.renewal;
    let wanted = part;
    for (let left = MOST_RENEWALS; left > 0 && this.#isHeld && !this.isFreshUntil(wanted); left -= 1) {
      held.renewal ??= this.#renewAll(held).finally(() => {
        held.renewal = null;
      });
      await held.renewal;
      wanted = 1;
    }
    return !this.#isLost;
  }

  get #isHeld(): boolean {
    return !this.#isLost && this.#held.leases.has(this);
  }

  /** Leases with other clocks or another duration are renewed by their own calls. */
  async #renewAll(held: Held): Promise<void> {
    const { store, host, leaseMs } = this.#options;
    const leases = [...held.leases].filter(
      lease => lease.#options.host === host && lease.#options.leaseMs === leaseMs,
    );
    const asked = momentOf(host);
    host.reach?.('renew.before');
    const lost = await store.renew(
      leases.map(lease => ({ runId: lease.#options.runId, epoch: lease.#options.epoch })),
      { now: asked.wall, leaseMs },
    );
    for (const lease of leases) {
      const { runId, epoch } = lease.#options;
      if (lost.some(other => other.runId === runId && other.epoch === epoch)) lease.#isLost = true;
      else lease.#renewedAt = asked;
    }
    host.reach?.('renew.after');
  }

  /** Gives the lease back, so that another process can claim the run, and drive it at `wakeAt` (ms since the epoch). */
  async release(wakeAt?: number): Promise<void> {
    const { store, host, runId, epoch } = this.#options;
    this.end();
    host.reach?.('release.before');
    await store.release(runId, epoch, wakeAt);
    host.reach?.('release.after');
  }

  end(): void {
    this.#held.leases.delete(this);
  }
}
