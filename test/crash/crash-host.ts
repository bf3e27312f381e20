import { type Host, systemHost } from '../../engine/host/host.ts';
import type { CrashPoint } from './scenario.ts';

/** The duration of a commit on the monotonic clock, in ms: a lease needs renewal after two commits. */
const COMMIT_MS = 3_000;
const LEASE_MS = 10_000;

/** The duration of a turn of the event loop on the wall clock, in ms. */
const TURN_MS = 5;

type Timer = { at: number; fire: () => void };

/**
 * A host whose time advances with work done, so that two processes that do the same work pass the
 * same points: a timer waits for turns of the event loop, and a lease expires after commits. The wall
 * clock starts at the system's time.
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
