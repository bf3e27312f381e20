import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import { backOffMs } from '../../protocol/back-off.ts';
import { messageOf } from '../../protocol/error.ts';
import { closedStore } from '../run-record.ts';
import { OpenedFile, openDatabase, readPragma } from './open-database.ts';
import { prepareStatements, type Statements } from './statements.ts';
import { describeFault, isFault, isRefusedCommit, translateError } from './translate-error.ts';

type Opened = { db: DatabaseSync; sql: Statements; file: OpenedFile | undefined };

/**
 * The single connection of a store, opened on first use. All its failures are `EngineError`s.
 *
 * 1. A transaction never outlives the turn of the event loop in which it began.
 * 2. All writes of one turn of the event loop share a commit. Each write is atomic: a write that fails has no effect,
 *    and does not affect the others.
 * 3. When a commit fails, none of its writes is acknowledged. If it may be on disk anyway, they reject with
 *    `store-reply-lost`.
 * 4. A connection that failed to open, commit or roll back is closed; the next use opens a new one.
 * 5. While another process holds the lock, operations are retried from their beginning without blocking this process.
 *    Writes keep the order of their calls; reads do not wait for writes of this process.
 * 6. No commit is acknowledged after its file was deleted or replaced.
 */
export class Connection {
  readonly #file: string;
  readonly #busyTimeoutMs: number;
  readonly #writes: WriteQueue;
  #opened: Opened | undefined;
  #closed = false;
  #isFull = false;

  /** A call waits for a lock for up to `busyTimeoutMs`, then rejects with `store-locked`. */
  constructor(file: string, busyTimeoutMs: number) {
    this.#file = file;
    this.#busyTimeoutMs = busyTimeoutMs;
    this.#writes = new WriteQueue(file, busyTimeoutMs, writes => this.#commit(writes));
  }

  async query<Result>(work: (sql: Statements) => Result): Promise<Result> {
    return await this.#retryWhileLocked(() =>
      this.#use(({ sql, file }) => {
        file?.assertInPlace();
        return work(sql);
      }),
    );
  }

  /** Runs `work`, which only reads, in a read transaction; repeats it while the store is locked. */
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

  /** Runs `work` in the next commit; if it throws, nothing is changed. `work` may run more than once. */
  async write<Result>(work: (sql: Statements) => Result): Promise<Result> {
    if (this.#closed) throw closedStore();
    return await this.#writes.add(work);
  }

  /** See `Store.assertRoom`. Two commits: what one commit writes and removes does not reach the disk. */
  async assertRoom(): Promise<void> {
    if (!this.#isFull) return;
    await this.write(sql => void sql.fillRoom.run());
    await this.write(sql => void sql.clearRoom.run());
    this.#isFull = false;
  }

  /**
   * Erases deleted data from the file and its log, and frees the space. Pages may keep copies of data that SQLite moved
   * between them; only `rebuild`, which rewrites the file, erases these too. A rebuild takes as long as copying the
   * file and holds the lock during that time. The first purge of a file that another program created always rebuilds it.
   * Rejects with `store-locked` if other processes use the store without a break.
   */
  async purge({ rebuild = false } = {}): Promise<void> {
    if (rebuild) await this.#retryWhileLocked(() => this.#use(({ db }) => rebuildFile(db)));
    else while (await this.#retryWhileLocked(() => this.#use(({ db }) => freePages(db)))) await delay(0);
    await this.#retryWhileLocked(() => this.#use(({ db }) => emptyLog(db, this.#file)));
  }

  /** As `purge`, but leaves the space and the log to a later purge if other processes use the store without a break. */
  async purgeIfFree(): Promise<void> {
    await this.purge().catch((error: unknown) => {
      if (!isFault(error, 'store-locked')) throw error;
    });
  }

  /** SQLite moves its log into the file when the last connection closes. */
  close(): void {
    this.#writes.close();
    this.#closed = true;
    try {
      this.#disconnect();
    } catch (error) {
      throw this.#translate(error);
    }
  }

  #commit(writes: readonly Write[]): readonly Write[] {
    try {
      for (const settle of this.#use(opened => this.#commitTogether(opened, writes))) settle();
      return [];
    } catch (error) {
      if (isFault(error, 'store-locked')) return writes;
      if (error instanceof TransactionEnded) return writes.flatMap(write => this.#commit([write]));
      for (const { reject } of writes) reject(error);
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
        throw describeFault('store-reply-lost', this.#file, messageOf(error), { cause: error });
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
      return () => write.reject(this.#translate(error));
    }
  }

  /** SQLite may have already ended the transaction; then the connection is closed. */
  #end(statement: Statements['commit']): void {
    try {
      statement.run();
    } catch {
      this.#disconnect();
    }
  }

  async #retryWhileLocked<Result>(attempt: () => Result): Promise<Result> {
    const calledAt = performance.now();
    for (let failures = 1; ; failures += 1) {
      try {
        return attempt();
      } catch (error) {
        const left = this.#busyTimeoutMs - (performance.now() - calledAt);
        if (!isFault(error, 'store-locked') || left <= 0) throw error;
        await delay(Math.min(backOffMs(failures, LOCK_BACK_OFF), left));
      }
    }
  }

  #use<Result>(work: (opened: Opened) => Result): Result {
    try {
      return work(this.#open());
    } catch (error) {
      throw this.#translate(error);
    }
  }

  #translate(error: unknown): unknown {
    const translated = translateError(this.#file, error);
    if (isFault(translated, 'store-full')) this.#isFull = true;
    return translated;
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

/** SQLite rolled back the transaction because of one of several writes: nothing was written. */
class TransactionEnded extends Error {}

/** `auto_vacuum` of a file that can give pages back. Source: https://www.sqlite.org/pragma.html#pragma_auto_vacuum */
const INCREMENTAL = 2;

/** How many pages one commit removes: other processes wait for the commit. */
const STEP = 1000;

/** Returns whether there are more. A file that another program created shrinks only by a rebuild. */
function freePages(db: DatabaseSync): boolean {
  if (readPragma(db, 'auto_vacuum') !== INCREMENTAL) rebuildFile(db);
  else db.exec(`PRAGMA incremental_vacuum(${STEP})`);
  return Number(readPragma(db, 'freelist_count')) > 0;
}

function rebuildFile(db: DatabaseSync): void {
  // Merges the index of words, which until then has parts of what was deleted.
  db.exec("INSERT INTO texts_index (texts_index) VALUES ('optimize')");
  db.exec('PRAGMA auto_vacuum = INCREMENTAL');
  db.exec('VACUUM');
}

/** Moves the log into the file and truncates it. Throws `store-locked` while another process reads the log. */
function emptyLog(db: DatabaseSync, file: string): void {
  const { busy } = db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get() ?? {};
  if (busy !== 0)
    throw describeFault(
      'store-locked',
      file,
      'the deleted data is still in its log, which another process is reading',
    );
}

const LOCK_BACK_OFF = { baseMs: 1, maxMs: 50 };

type Write = {
  /** Does the work in the open transaction. Call the returned function after the commit to acknowledge the write. */
  run(sql: Statements): () => void;
  reject(error: unknown): void;
  calledAt: number;
};

type Commit = (writes: readonly Write[]) => readonly Write[];

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
  readonly #waiting: Write[] = [];
  #failures = 0;
  #cancel: (() => void) | undefined;

  constructor(file: string, timeoutMs: number, commit: Commit) {
    this.#file = file;
    this.#timeoutMs = timeoutMs;
    this.#commit = commit;
  }

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
    const waiting = this.#waiting.splice(0);
    if (waiting.length === 0) return;
    for (const { reject } of this.#commit(waiting)) reject(closedStore());
  }

  #flush(): void {
    this.#cancel = undefined;
    let longestMs: number = LOCK_BACK_OFF.maxMs;
    for (const write of this.#commit(this.#waiting.splice(0))) {
      const left = this.#timeoutMs - (performance.now() - write.calledAt);
      if (left > 0) this.#waiting.push(write);
      else write.reject(describeFault('store-locked', this.#file, 'database is locked'));
      if (left > 0) longestMs = Math.min(longestMs, left);
    }
    this.#failures = this.#waiting.length === 0 ? 0 : this.#failures + 1;
    if (this.#failures === 0) return;
    const timer = setTimeout(
      () => this.#flush(),
      Math.min(backOffMs(this.#failures, LOCK_BACK_OFF), longestMs),
    );
    this.#cancel = () => clearTimeout(timer);
  }
}
