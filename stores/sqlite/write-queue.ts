import { backOffMs } from '../../protocol/back-off.ts';
import { closedStore } from '../run-record.ts';
import type { Statements } from './statements.ts';
import { describeFault } from './translate-error.ts';

export const LOCK_BACK_OFF = { baseMs: 1, maxMs: 50 };

/** One write: atomic, and repeated if its transaction failed. */
export type Write = {
  /** Does the work in the open transaction. Call the returned function after the commit to acknowledge the write. */
  run(sql: Statements): () => void;
  reject(error: unknown): void;
};

/** Commits writes in order and settles each; returns those that found the store locked. */
type Commit = (writes: readonly Write[]) => readonly Write[];

type Waiting = Write & { calledAt: number };

/**
 * The writes of one connection, in the order of their calls.
 *
 * 1. Writes added in one turn of the event loop are committed together, at its end.
 * 2. While another process holds the lock, writes wait without blocking this process, and new writes join them. Each
 *    write has its own timeout, after which it rejects with `store-locked`.
 */
export class WriteQueue {
  readonly #file: string;
  readonly #timeoutMs: number;
  readonly #commit: Commit;
  #waiting: Waiting[] = [];
  /** How many attempts in a row found the store locked. */
  #failures = 0;
  #cancel: (() => void) | undefined;

  constructor(file: string, timeoutMs: number, commit: Commit) {
    this.#file = file;
    this.#timeoutMs = timeoutMs;
    this.#commit = commit;
  }

  /** Resolves when `work` is on disk. `work` may run more than once. */
  add<Result>(work: (sql: Statements) => Result): Promise<Result> {
    return new Promise((resolve, reject) => {
      const run = (sql: Statements) => {
        const result = work(sql);
        return () => resolve(result);
      };
      this.#waiting.push({ run, reject, calledAt: performance.now() });
      if (this.#cancel !== undefined) return;
      const immediate = setImmediate(() => this.#flush());
      this.#cancel = () => clearImmediate(immediate);
    });
  }

  /** Commits the waiting writes if the store is not locked; rejects the others. */
  close(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    const waiting = this.#waiting;
    this.#waiting = [];
    if (waiting.length === 0) return;
    for (const { reject } of this.#commit(waiting)) reject(closedStore());
  }

  #flush(): void {
    this.#cancel = undefined;
    const waiting = this.#waiting;
    this.#waiting = [];
    const locked = new Set(this.#commit(waiting));
    const now = performance.now();
    let longest: number = LOCK_BACK_OFF.maxMs;
    for (const write of waiting) {
      if (!locked.has(write)) continue;
      const left = this.#timeoutMs - (now - write.calledAt);
      if (left <= 0) write.reject(describeFault('store-locked', this.#file, 'database is locked'));
      else this.#waiting.push(write);
      if (left > 0) longest = Math.min(longest, left);
    }
    if (this.#waiting.length > 0) this.#tryAgain(longest);
    else this.#failures = 0;
  }

  #tryAgain(longestMs: number): void {
    this.#failures += 1;
    const pauseMs = Math.min(backOffMs(this.#failures, LOCK_BACK_OFF), longestMs);
    const timer = setTimeout(() => this.#flush(), pauseMs);
    this.#cancel = () => clearTimeout(timer);
  }
}
