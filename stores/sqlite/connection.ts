import type { DatabaseSync } from 'node:sqlite';
import { closedStore } from '../run-record.ts';
import { openDatabase } from './open-database.ts';
import { prepareStatements, type Statements } from './statements.ts';
import { translateError } from './translate-error.ts';

/**
 * The one connection of a store, opened when first used. All its failures are `EngineError`s.
 *
 * 1. A transaction never outlives the turn of the event loop it began in.
 * 2. A connection that failed to open, or to roll back, is closed; the next use opens a new one.
 */
export class Connection {
  readonly #file: string;
  readonly #busyTimeoutMs: number;
  #opened: { db: DatabaseSync; sql: Statements } | undefined;
  #closed = false;

  constructor(file: string, busyTimeoutMs: number) {
    this.#file = file;
    this.#busyTimeoutMs = busyTimeoutMs;
  }

  /** Runs `work` without a transaction of its own. */
  query<Result>(work: (sql: Statements) => Result): Result {
    return this.#use(({ sql }) => work(sql));
  }

  /** Runs `work` and commits, or leaves everything as it was when it throws. `write` takes the write lock first. */
  transact<Result>(mode: 'read' | 'write', work: (sql: Statements) => Result): Result {
    return this.#use(({ db, sql }) => {
      db.exec(mode === 'write' ? 'BEGIN IMMEDIATE' : 'BEGIN DEFERRED');
      try {
        const result = work(sql);
        db.exec('COMMIT');
        return result;
      } catch (error) {
        this.#rollBack(db);
        throw error;
      }
    });
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

  #use<Result>(work: (opened: { db: DatabaseSync; sql: Statements }) => Result): Result {
    try {
      return work(this.#open());
    } catch (error) {
      throw translateError(this.#file, error);
    }
  }

  #open(): { db: DatabaseSync; sql: Statements } {
    if (this.#closed) throw closedStore();
    if (this.#opened !== undefined) return this.#opened;
    const db = openDatabase(this.#file, this.#busyTimeoutMs);
    try {
      this.#opened = { db, sql: prepareStatements(db) };
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
