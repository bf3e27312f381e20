import { closedStore } from '../../run-record.ts';
import type { Statements } from '../statements.ts';
import { describeFault } from './translate-error.ts';

/** Between two tries for a lock, in ms; the first pause is 1 ms, each next one twice as long, up to this. */
export const LONGEST_PAUSE_MS = 50;

/** One call that writes: atomic by itself, and run again where its transaction came to nothing. */
export type Write = {
  /** Does the work in the transaction that is open; what it gives acknowledges it, once that is committed. */
  run(sql: Statements): () => void;
  refuse(error: unknown): void;
};

/** Commits writes in this order, and settles each; gives back those that found the store locked. */
export type Commit = (writes: readonly Write[]) => readonly Write[];

type Waiting = Write & { calledAt: number };

/**
 * The writes of one connection, in the order of their calls.
 *
 * 1. Those that are added in one turn of the event loop are committed together, at its end.
 * 2. While another process holds the lock they wait, this process goes on, and those that are added meanwhile join
 *    them. Each waits for its own time; then it is refused as `store-locked`.
 */
export class WriteQueue {
  readonly #file: string;
  readonly #patienceMs: number;
  readonly #commit: Commit;
  #waiting: Waiting[] = [];
  #pauseMs = 1;
  /** Stops what calls `flush` next; `undefined` while nothing waits. */
  #cancel: (() => void) | undefined;

  constructor(file: string, patienceMs: number, commit: Commit) {
    this.#file = file;
    this.#patienceMs = patienceMs;
    this.#commit = commit;
  }

  /** Settles when `work` is on the disk, or rejects. `work` runs more than once if it has to. */
  add<Result>(work: (sql: Statements) => Result): Promise<Result> {
    return new Promise((resolve, refuse) => {
      const run = (sql: Statements) => {
        const result = work(sql);
        return () => resolve(result);
      };
      this.#waiting.push({ run, refuse, calledAt: performance.now() });
      if (this.#cancel !== undefined) return;
      const immediate = setImmediate(() => this.#flush());
      this.#cancel = () => clearImmediate(immediate);
    });
  }

  /** Commits what waits, if the store is free, and refuses the rest. */
  close(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    const waiting = this.#waiting;
    this.#waiting = [];
    if (waiting.length === 0) return;
    for (const { refuse } of this.#commit(waiting)) refuse(closedStore());
  }

  #flush(): void {
    this.#cancel = undefined;
    const waiting = this.#waiting;
    this.#waiting = [];
    const locked = new Set(this.#commit(waiting));
    const now = performance.now();
    let longest = LONGEST_PAUSE_MS;
    for (const write of waiting) {
      if (!locked.has(write)) continue;
      const left = this.#patienceMs - (now - write.calledAt);
      if (left <= 0) write.refuse(describeFault('store-locked', this.#file, 'database is locked'));
      else this.#waiting.push(write);
      if (left > 0) longest = Math.min(longest, left);
    }
    if (this.#waiting.length > 0) this.#tryAgain(longest);
    else this.#pauseMs = 1;
  }

  #tryAgain(longestMs: number): void {
    const timer = setTimeout(() => this.#flush(), Math.min(this.#pauseMs, longestMs));
    this.#cancel = () => clearTimeout(timer);
    this.#pauseMs = Math.min(2 * this.#pauseMs, LONGEST_PAUSE_MS);
  }
}
