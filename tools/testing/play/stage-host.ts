import type { Host } from '../../../engine/driver/host.ts';

type Timer = { at: number; fire(): void };

/** A host whose time is that of a recording: it stands still until it is told how late it is. */
export class StageHost implements Host {
  readonly leaseMs = Number.MAX_SAFE_INTEGER;
  readonly #timers = new Set<Timer>();
  #now: number;
  #monotonic = 0;
  #ids = 0;

  constructor(now: number) {
    this.#now = now;
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

  newId(prefix: string): string {
    this.#ids += 1;
    return `${prefix}_played_${this.#ids}`;
  }

  setTimer(ms: number, fire: () => void): () => void {
    const timer = { at: this.#monotonic + Math.max(0, ms), fire };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** It is `now`, and no timer has noticed yet. */
  moveTo(now: number): void {
    this.#monotonic += Math.max(0, now - this.#now);
    this.#now = now;
  }

  /** Whoever waited for a time that has come goes on. */
  fireDueTimers(): void {
    const due = [...this.#timers].filter(({ at }) => at <= this.#monotonic).toSorted((a, b) => a.at - b.at);
    for (const timer of due) if (this.#timers.delete(timer)) timer.fire();
  }
}
