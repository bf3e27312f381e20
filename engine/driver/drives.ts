import { oncePer } from '../../protocol/once-per.ts';
import type { Store } from '../../protocol/store.ts';
import { type Host, settledWithin } from '../host/host.ts';
import type { DriveOutcome } from './driver.ts';

/** A run that this process drives: `yield` gives it up (see `Driver.yield`), `parentId` is the run above, if any. */
interface Drive {
  readonly parentId: string | undefined;
  yield(graceMs: number): Promise<void>;
}

/** A handle of a run at rest whose caller waits for the runs below: it drives the run on, so that its readers get the text. */
interface Waiting {
  goOn(): Promise<void>;
}

/** How long the leases may take to be released after the grace time, in ms: the store may be away. */
export const RELEASE_MS = 5_000;

/**
 * The runs of one store that this process drives.
 *
 * A run that is being claimed counts as one, since its claim may commit at any time. While the process drains, a run that
 * is added is given up at once, and none is claimed.
 */
export class Drives {
  readonly #drives = new Map<Drive, Promise<unknown>>();
  readonly #claims = new Set<Promise<unknown>>();
  readonly #waiting = new Map<string, Waiting>();
  #draining: { graceMs: number } | null = null;
  lostLeases = 0;

  get isDraining(): boolean {
    return this.#draining !== null;
  }

  get size(): number {
    return this.#drives.size;
  }

  /** Counts a claim until it settles; the run that it gives is added before. */
  async claiming<Claimed>(claim: Promise<Claimed>): Promise<Claimed> {
    this.#claims.add(claim);
    return await claim.finally(() => this.#claims.delete(claim));
  }

  add(drive: Drive, done: Promise<DriveOutcome>): void {
    this.#drives.set(drive, done);
    const remove = () => void this.#drives.delete(drive);
    done.then(outcome => {
      if (outcome === 'superseded') this.lostLeases += 1;
      remove();
    }, remove);
    if (this.#draining !== null) void drive.yield(this.#draining.graceMs);
  }

  below(runId: string): Drive[] {
    return [...this.#drives.keys()].filter(({ parentId }) => parentId === runId);
  }

  /** Counts the handle as waiting until `work` settles. */
  async waitingFor<Result>(runId: string, handle: Waiting, work: Promise<Result>): Promise<Result> {
    this.#waiting.set(runId, handle);
    return await work.finally(() => {
      if (this.#waiting.get(runId) === handle) this.#waiting.delete(runId);
    });
  }

  waiting(runId: string): Waiting | undefined {
    return this.#waiting.get(runId);
  }

  /** Gives up all runs. Resolves once their leases are released, with how many the store did not release in time. */
  async drain(host: Pick<Host, 'setTimer'>, graceMs: number): Promise<number> {
    this.#draining = { graceMs };
    await settledWithin(host, graceMs + RELEASE_MS, [this.#yieldAll(graceMs)]);
    return this.#drives.size + this.#claims.size;
  }

  async #yieldAll(graceMs: number): Promise<void> {
    while (this.#drives.size + this.#claims.size > 0) {
      for (const drive of this.#drives.keys()) void drive.yield(graceMs);
      await Promise.allSettled([...this.#claims, ...this.#drives.values()]);
    }
  }
}

export const drivesOf = oncePer((_store: Store) => new Drives());
