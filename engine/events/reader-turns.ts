import { runSoon } from '../host/host.ts';

/** How long readers may work in one turn of the event loop, in ms, and how many of them at most. */
const BUDGET_MS = 4;
const MOST_READERS = 32;

/**
 * The queue in which the readers of runs wait before they read, encode or write a part of what they are behind.
 *
 * Q1 Readers get their turns in the order in which they asked.
 * Q2 In one turn of the event loop readers work until `BUDGET_MS` has passed, at least one and at most `MOST_READERS`;
 *    then timers (leases), requests and drivers have their turn.
 */
export class ReaderTurns {
  readonly #now: () => number;
  #waiting: (() => void)[] = [];
  #next = 0;
  #isScheduled = false;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Waits for a turn. What its caller does before it waits again belongs to the turn. */
  take(): Promise<void> {
    return new Promise(resolve => {
      this.#waiting.push(resolve);
      if (!this.#isScheduled) this.#schedule();
    });
  }

  /** Each reader gets a task of its own: what it does in promises is done before the next one looks at the clock. */
  #schedule(): void {
    this.#isScheduled = true;
    const readers = Math.min(this.#waiting.length - this.#next, MOST_READERS);
    let beganAt: number | null = null;
    for (let place = 1; place <= readers; place += 1)
      runSoon(() => {
        beganAt ??= this.#now();
        if (place === 1 || this.#now() - beganAt < BUDGET_MS) this.#admit();
        if (place < readers) return;
        if (this.#next < this.#waiting.length) return this.#schedule();
        this.#isScheduled = false;
      });
  }

  #admit(): void {
    this.#waiting[this.#next]?.();
    this.#next += 1;
    if (this.#next < this.#waiting.length && this.#next < 1_024) return;
    this.#waiting = this.#waiting.slice(this.#next);
    this.#next = 0;
  }
}

const turns = new ReaderTurns();

/** Waits for a turn among all readers of this process: they share its event loop. */
export function nextReaderTurn(): Promise<void> {
  return turns.take();
}
