import { type Host, systemHost } from '../../engine/driver/host.ts';
import type { CrashPoint } from './scenario.ts';

/** How long a commit takes on the monotonic clock, in ms: a lease has to be renewed after two. */
const COMMIT_MS = 3_000;
const LEASE_MS = 10_000;

/** How long a turn of the event loop takes on the wall clock, in ms. */
const TURN_MS = 5;

type Timer = { at: number; fire: () => void };

/**
 * A host whose time passes with the work that is done, so that two processes that do the same pass the
 * same points: a timer waits for turns of the event loop, and a lease runs out with commits. The wall
 * clock begins with the system's.
 */
export class CrashHost implements Host {
  readonly leaseMs = LEASE_MS;
  readonly newId = systemHost.newId;
  readonly #reach: (point: CrashPoint) => void;
  readonly #timers = new Set<Timer>();
  #now = Date.now();
  #monotonic = 0;
  #isTurning = false;

  constructor(reach: (point: CrashPoint) => void) {
    this.#reach = reach;
  }

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.#monotonic;
  }

  random(): number {
    return 0;
  }

  setTimer(ms: number, fire: () => void): () => void {
    const timer = { at: this.#now + ms, fire };
    this.#timers.add(timer);
    this.#turn();
    return () => this.#timers.delete(timer);
  }

  reach(point: CrashPoint): void {
    if (point === 'append.after') this.#monotonic += COMMIT_MS;
    this.#reach(point);
  }

  #turn(): void {
    if (this.#isTurning || this.#timers.size === 0) return;
    this.#isTurning = true;
    setImmediate(() => {
      this.#isTurning = false;
      this.#now += TURN_MS;
      const due = [...this.#timers].filter(({ at }) => at <= this.#now).sort((a, b) => a.at - b.at);
      for (const timer of due) if (this.#timers.delete(timer)) timer.fire();
      this.#turn();
    });
  }
}
