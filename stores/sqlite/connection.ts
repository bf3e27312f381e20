import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import { EngineError } from '../../protocol/error.ts';
import { closedStore } from '../run-record.ts';
import { openDatabase } from './open-database.ts';
import { OpenedFile } from './opened-file.ts';
import { prepareStatements, type Statements } from './statements.ts';
import { translateError } from './translate-error.ts';

/** Between two tries for a lock, in ms; the first pause is 1 ms, each next one twice as long, up to this. */
const LONGEST_PAUSE_MS = 50;

type Opened = { db: DatabaseSync; sql: Statements; file: OpenedFile | undefined };

/**
 * The one connection of a store, opened when first used. All its failures are `EngineError`s.
 *
 * 1. A transaction never outlives the turn of the event loop it began in.
 * 2. A connection that failed to open, or to roll back, is closed; the next use opens a new one.
 * 3. While another process holds the lock, what found it held is tried again from its beginning, and this process
 *    goes on meanwhile. Writes keep the order of their calls; reads wait for no write of this process.
 * 4. No commit is acknowledged whose file is not in its place any more.
 */
export class Connection {
  readonly #file: string;
  readonly #busyTimeoutMs: number;
  #opened: Opened | undefined;
  #closed = false;
  /** Settles after the latest write; `undefined` if none is under way. */
  #writing: Promise<void> | undefined;

  /** A lock is waited for up to `busyTimeoutMs`, from the call on; then the call is refused as `store-locked`. */
  constructor(file: string, busyTimeoutMs: number) {
    this.#file = file;
    this.#busyTimeoutMs = busyTimeoutMs;
  }

  /** Runs `work` without a transaction of its own; more than once if the store is locked. */
  async query<Result>(work: (sql: Statements) => Result): Promise<Result> {
    return await this.#retryWhileLocked(performance.now(), () =>
      this.#use(({ sql, file }) => {
        file?.assertInPlace();
        return work(sql);
      }),
    );
  }

  /**
   * Runs `work` and commits, or leaves everything as it was when it throws. `write` takes the write lock first.
   * `work` runs more than once if the store is locked.
   */
  async transact<Result>(mode: 'read' | 'write', work: (sql: Statements) => Result): Promise<Result> {
    const calledAt = performance.now();
    const attempt = () => this.#retryWhileLocked(calledAt, () => this.#runTransaction(mode, work));
    return mode === 'read' ? await attempt() : await this.#inTurn(attempt);
  }

  /** Every later use is refused. SQLite empties its log into the file when the last connection closes. */
  close(): void {
    this.#closed = true;
    try {
      this.#disconnect();
    } catch (error) {
      throw translateError(this.#file, error);
    }
  }

  #runTransaction<Result>(mode: 'read' | 'write', work: (sql: Statements) => Result): Result {
    return this.#use(({ db, sql, file }) => {
      db.exec(mode === 'write' ? 'BEGIN IMMEDIATE' : 'BEGIN DEFERRED');
      let result: Result;
      try {
        result = work(sql);
        db.exec('COMMIT');
      } catch (error) {
        this.#rollBack(db);
        throw error;
      }
      file?.assertInPlace();
      return result;
    });
  }

  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const result = this.#writing === undefined ? work() : this.#writing.then(work);
    const done = () => {
      if (this.#writing === settled) this.#writing = undefined;
    };
    const settled = result.then(done, done);
    this.#writing = settled;
    return result;
  }

  async #retryWhileLocked<Result>(calledAt: number, attempt: () => Result): Promise<Result> {
    for (let pause = 1; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
      try {
        return attempt();
      } catch (error) {
        const left = this.#busyTimeoutMs - (performance.now() - calledAt);
        if (!(error instanceof EngineError) || error.code !== 'store-locked' || left <= 0) throw error;
        await delay(Math.min(pause, left));
      }
    }
  }

  #use<Result>(work: (opened: Opened) => Result): Result {
    try {
      return work(this.#open());
    } catch (error) {
      throw translateError(this.#file, error);
    }
  }

  #open(): Opened {
    if (this.#closed) throw closedStore();
    if (this.#opened !== undefined) return this.#opened;
    const db = openDatabase(this.#file);
    try {
      const sql = prepareStatements(db);
      const file = this.#file === ':memory:' ? undefined : new OpenedFile(this.#file);
      this.#opened = { db, sql, file };
      return this.#opened;
    } catch (error) {
      db.close();
      throw error;
    }
  }

  /** SQLite may have rolled back by itself; then there is nothing to keep of the connection. */
  #rollBack(db: DatabaseSync): void {
    try {
      db.exec('ROLLBACK');
    } catch {
      this.#disconnect();
    }
  }

  #disconnect(): void {
    const opened = this.#opened;
    this.#opened = undefined;
    opened?.db.close();
  }
}
