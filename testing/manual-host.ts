import { setImmediate as turn } from 'node:timers/promises';
import type { FaultPoint, Host } from '../engine/host/host.ts';
import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';

/** The longest that `settle` lets pass on the manual clock. */
const MAX_WAIT_MS = 2 * 24 * 60 * 60 * 1000;

/** Turns of the event loop after which pending work is assumed to wait for a timer. A commit of SQLite takes one. */
const IDLE_TURNS = 12;

type Timer = { at: number; fire: () => void };

export type ManualHostOptions = {
  /** The start time in ms since the epoch. Default 2026-01-01T00:00:00Z. */
  now?: number;
  /** Part of every generated id, to distinguish the ids of several simulated processes. Default: empty. */
  name?: string;
  /** Called at each fault point of the driver, for tests that simulate a crash there. */
  reach?: (point: FaultPoint) => void;
};

const NAMES: NamesOf<ManualHostOptions> = { now: true, name: true, reach: true };

/**
 * A host for tests, with a clock that only the test advances: approvals expire, retries back off and leases end
 * without waiting. Deterministic: ids count from 1 for each prefix, `random` is a fixed sequence. Pass it to an
 * agent as `host`.
 *
 * @example
 * const host = new ManualHost();
 * const agent = createAgent({ name: 'refunds', model, tools: [refund], host });
 * const run = await agent.start('Refund order A-1001.');
 * await host.settle(run.settled()); // waits for approval
 * await host.advance(60 * 60_000);  // an hour later the approval has expired
 * const settled = await host.settle(run.settled());
 */
export class ManualHost implements Host {
  readonly #name: string;
  readonly #ids = new Map<string, number>();
  readonly #timers = new Set<Timer>();
  #now: number;
  #monotonic = 0;
  #seed = 1;
  /** See `ManualHostOptions.reach`. */
  reach: (point: FaultPoint) => void;

  constructor(options: ManualHostOptions = {}) {
    refuseUnknownOptions('ManualHost', options, NAMES, 'input-invalid');
    const { now = Date.UTC(2026, 0, 1), name = '', reach = () => {} } = options;
    this.#now = now;
    this.#name = name;
    this.reach = reach;
  }

  /** The wall clock, in ms since the epoch. */
  now(): number {
    return this.#now;
  }

  /** The monotonic clock in ms, from 0. */
  monotonic(): number {
    return this.#monotonic;
  }

  /** The next number of a fixed sequence, from 0 up to but not including 1. */
  random(): number {
    this.#seed = (this.#seed * 48_271) % 2_147_483_647;
    return this.#seed / 2_147_483_647;
  }

  /** Returns `PREFIX_NAME1`, `PREFIX_NAME2` and so on. */
  newId(prefix: string): string {
    const number = (this.#ids.get(prefix) ?? 0) + 1;
    this.#ids.set(prefix, number);
    return `${prefix}_${this.#name}${number}`;
  }

  /** Calls `fire` when the clock has advanced by `ms`. Returns a function that cancels the timer. */
  setTimer(ms: number, fire: () => void): () => void {
    const timer = { at: this.#monotonic + Math.max(0, ms), fire };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Moves both clocks without firing timers, as after the process was suspended. */
  jump(ms: number): void {
    this.#now += ms;
    this.#monotonic += ms;
  }

  /** Sets the wall clock only, as a user or NTP may do. */
  setWallClock(now: number): void {
    this.#now = now;
  }

  /** Advances both clocks by `ms`. Timers fire in order, and the work that each one starts runs before the next fires. */
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

  /** Runs all pending work that does not wait for a timer. */
  async idle(): Promise<void> {
    for (let turns = 0; turns < IDLE_TURNS; turns += 1) await turn();
  }

  /**
   * Advances the clock from timer to timer until the promise settles, and returns its result. Throws if it does not
   * settle within two days of the manual clock.
   */
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
      if (this.#monotonic - start > MAX_WAIT_MS)
        throw new Error('The promise did not settle within two days of the manual clock.');
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
