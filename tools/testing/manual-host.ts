import { setImmediate as turn } from 'node:timers/promises';
import type { FaultPoint, Host } from '../../engine/driver/host.ts';

/** A day of the manual clock: whoever waits longer waits for nothing. */
const LONGEST_WAIT_MS = 2 * 24 * 60 * 60 * 1000;

/** Turns of the event loop without progress after which only a timer can bring any. A commit of SQLite takes one. */
const IDLE_TURNS = 12;

type Timer = { at: number; fire: () => void };

export type ManualHostOptions = {
  now?: number;
  /** Goes into every id, to tell the ids of one process from those of another. */
  name?: string;
  reach?: (point: FaultPoint) => void;
};

/**
 * A host whose clock stands still until a test moves it. Ids count from 1 for each prefix, randomness
 * is a fixed sequence.
 */
export class ManualHost implements Host {
  readonly #name: string;
  readonly #ids = new Map<string, number>();
  readonly #timers = new Set<Timer>();
  #now: number;
  #monotonic = 0;
  #seed = 1;
  reach: (point: FaultPoint) => void;

  constructor({ now = Date.UTC(2026, 0, 1), name = '', reach = () => {} }: ManualHostOptions = {}) {
    this.#now = now;
    this.#name = name;
    this.reach = reach;
  }

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.#monotonic;
  }

  random(): number {
    this.#seed = (this.#seed * 48_271) % 2_147_483_647;
    return this.#seed / 2_147_483_647;
  }

  newId(prefix: string): string {
    const number = (this.#ids.get(prefix) ?? 0) + 1;
    this.#ids.set(prefix, number);
    return `${prefix}_${this.#name}${number}`;
  }

  setTimer(ms: number, fire: () => void): () => void {
    const timer = { at: this.#monotonic + Math.max(0, ms), fire };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Both clocks run on at once, and no timer fires: what a process that was stopped wakes up to. */
  jump(ms: number): void {
    this.#now += ms;
    this.#monotonic += ms;
  }

  /** Somebody sets the wall clock. */
  setWallClock(now: number): void {
    this.#now = now;
  }

  /** Lets `ms` pass: timers fire in order, and what they set off runs before the next. */
  async advance(ms: number): Promise<void> {
    const end = this.#monotonic + ms;
    await this.idle();
    for (let timer = this.#next(end); timer !== undefined; timer = this.#next(end)) {
      this.#fire(timer);
      await this.idle();
    }
    this.jump(Math.max(0, end - this.#monotonic));
    await this.idle();
  }

  /** Lets everything run that waits for no timer. */
  async idle(): Promise<void> {
    for (let turns = 0; turns < IDLE_TURNS; turns += 1) await turn();
  }

  /** Lets time pass, from timer to timer, until the promise settles. */
  async settle<T>(promise: Promise<T>): Promise<T> {
    const start = this.#monotonic;
    let done = false;
    const finish = () => {
      done = true;
    };
    promise.then(finish, finish);
    for (;;) {
      await this.idle();
      if (done) return await promise;
      if (this.#monotonic - start > LONGEST_WAIT_MS) throw new Error('Nothing settled in two days.');
      const timer = this.#next(Number.POSITIVE_INFINITY);
      if (timer !== undefined) this.#fire(timer);
    }
  }

  #next(end: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) if (timer.at <= end && timer.at < (next?.at ?? Infinity)) next = timer;
    return next;
  }

  #fire(timer: Timer): void {
    this.#timers.delete(timer);
    this.jump(Math.max(0, timer.at - this.#monotonic));
    timer.fire();
  }
}
