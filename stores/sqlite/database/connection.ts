import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import { EngineError } from '../../../protocol/error.ts';
import { closedStore } from '../../run-record.ts';
import { prepareStatements, type Statements } from '../statements.ts';
import { emptyLog, freePages } from './free-pages.ts';
import { openDatabase } from './open-database.ts';
import { OpenedFile } from './opened-file.ts';
import { describeLostReply, isRefusedCommit, translateError } from './translate-error.ts';
import { LONGEST_PAUSE_MS, type Write, WriteQueue } from './write-queue.ts';

type Opened = { db: DatabaseSync; sql: Statements; file: OpenedFile | undefined };

/**
 * The one connection of a store, opened when first used. All its failures are `EngineError`s.
 *
 * 1. A transaction never outlives the turn of the event loop it began in.
 * 2. What is written in one turn of the event loop shares a commit. Each write in it is atomic by itself: one that
 *    fails leaves nothing, and takes none of the others with it.
 * 3. When a commit fails, none of its writes is acknowledged. Where it may be on the disk all the same, they are
 *    refused as `store-reply-lost`.
 * 4. A connection that failed to open, to commit, or to roll back is closed; the next use opens a new one.
 * 5. While another process holds the lock, what found it held is tried again from its beginning, and this process
 *    goes on meanwhile. Writes keep the order of their calls; reads wait for no write of this process.
 * 6. No commit is acknowledged whose file is not in its place any more.
 */
export class Connection {
  readonly #file: string;
  readonly #busyTimeoutMs: number;
  readonly #writes: WriteQueue;
  #opened: Opened | undefined;
  #closed = false;

  /** A lock is waited for up to `busyTimeoutMs`, from the call on; then the call is refused as `store-locked`. */
  constructor(file: string, busyTimeoutMs: number) {
    this.#file = file;
    this.#busyTimeoutMs = busyTimeoutMs;
    this.#writes = new WriteQueue(file, busyTimeoutMs, writes => this.#commit(writes));
  }

  /** Runs `work` without a transaction of its own; more than once if the store is locked. */
  async query<Result>(work: (sql: Statements) => Result): Promise<Result> {
    return await this.#retryWhileLocked(() =>
      this.#use(({ sql, file }) => {
        file?.assertInPlace();
        return work(sql);
      }),
    );
  }

  /** Runs `work`, which only reads, on one state of the store; more than once if the store is locked. */
  async read<Result>(work: (sql: Statements) => Result): Promise<Result> {
    return await this.query(sql => {
      sql.beginRead.run();
      try {
        return work(sql);
      } finally {
        this.#end(sql.commit);
      }
    });
  }

  /**
   * Runs `work` in the next commit, or leaves everything as it was when it throws. `work` runs more than once if
   * the store is locked, or SQLite ended the transaction because of another write.
   */
  async write<Result>(work: (sql: Statements) => Result): Promise<Result> {
    if (this.#closed) throw closedStore();
    return await this.#writes.add(work);
  }

  /**
   * Takes what was removed out of the file and its log too, and gives its space back. Pages keep copies of what SQLite
   * moved between them: only with `isWhole` the file is made anew, without any. That takes as long as copying the
   * file does, and the lock meanwhile; so does the first time on a file of an earlier release, which cannot
   * shrink before. Rejects with `store-locked` when others use the store all the time.
   */
  async purge({ isWhole = false } = {}): Promise<void> {
    await this.#retryWhileLocked(() => this.#use(({ db }) => freePages(db, isWhole)));
    await this.#retryWhileLocked(() => this.#use(({ db }) => emptyLog(db, this.#file)));
  }

  /** Every later use is refused. SQLite empties its log into the file when the last connection closes. */
  close(): void {
    this.#writes.close();
    this.#closed = true;
    try {
      this.#disconnect();
    } catch (error) {
      throw translateError(this.#file, error);
    }
  }

  #commit(writes: readonly Write[]): readonly Write[] {
    try {
      for (const settle of this.#use(opened => this.#commitTogether(opened, writes))) settle();
      return [];
    } catch (error) {
      if (isLocked(error)) return writes;
      if (error instanceof TransactionEnded) return writes.flatMap(write => this.#commit([write]));
      for (const { refuse } of writes) refuse(error);
      return [];
    }
  }

  #commitTogether({ sql, file }: Opened, writes: readonly Write[]): (() => void)[] {
    sql.begin.run();
    let settled: (() => void)[];
    try {
      const [first, ...others] = writes;
      const isAlone = first !== undefined && others.length === 0;
      settled = isAlone ? [first.run(sql)] : writes.map(write => this.#runPart(sql, write));
    } catch (error) {
      this.#end(sql.rollBack);
      throw error;
    }
    try {
      sql.commit.run();
    } catch (error) {
      if (!isRefusedCommit(error)) {
        this.#disconnect();
        throw describeLostReply(this.#file, error);
      }
      this.#end(sql.rollBack);
      throw error;
    }
    file?.assertInPlace();
    return settled;
  }

  #runPart(sql: Statements, write: Write): () => void {
    sql.beginPart.run();
    try {
      const acknowledge = write.run(sql);
      sql.endPart.run();
      return acknowledge;
    } catch (error) {
      try {
        sql.undoPart.run();
        sql.endPart.run();
      } catch {
        throw new TransactionEnded();
      }
      return () => write.refuse(translateError(this.#file, error));
    }
  }

  /** SQLite may have ended the transaction by itself; then there is nothing to keep of the connection. */
  #end(statement: Statements['commit']): void {
    try {
      statement.run();
    } catch {
      this.#disconnect();
    }
  }

  async #retryWhileLocked<Result>(attempt: () => Result): Promise<Result> {
    const calledAt = performance.now();
    for (let pause = 1; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
      try {
        return attempt();
      } catch (error) {
        const left = this.#busyTimeoutMs - (performance.now() - calledAt);
        if (!isLocked(error) || left <= 0) throw error;
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

  #disconnect(): void {
    const opened = this.#opened;
    this.#opened = undefined;
    opened?.db.close();
  }
}

/** SQLite rolled the transaction back because of one of several writes: nothing is written. */
class TransactionEnded extends Error {}

function isLocked(error: unknown): boolean {
  return error instanceof EngineError && error.code === 'store-locked';
}
