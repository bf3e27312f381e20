import type { Host } from '../../engine/host/host.ts';

type Timer = { at: number; fire(): void };

/** A host with the clock of a recording: it only changes when `moveTo` is called. */
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

  /** Sets the clock without firing timers. */
  moveTo(now: number): void {
    this.#monotonic += Math.max(0, now - this.#now);
    this.#now = now;
  }

  /** Fires the timers that are due, in order. */
  fireDueTimers(): void {
    const due = [...this.#timers].filter(({ at }) => at <= this.#monotonic).toSorted((a, b) => a.at - b.at);
    for (const timer of due) if (this.#timers.delete(timer)) timer.fire();
  }
}
