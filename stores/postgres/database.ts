import { backOffMs } from '../../protocol/back-off.ts';
import { EngineError, messageOf } from '../../protocol/error.ts';
import { closedStore } from '../run-record.ts';
import type { Row, Transaction } from '../sql/rows.ts';
import { findVersion, migrate, nameOfSchema, quoteSchema, schemaVersion } from './schema.ts';

type Answer = { rows: Row[]; rowCount: number | null };
type Query = (text: string, values?: readonly unknown[]) => Promise<Answer>;
type Client = {
  query: Query;
  release(error?: Error | boolean): void;
  on(event: 'error' | 'end', listener: (error: Error) => void): unknown;
  on(event: 'notification', listener: (message: { payload?: string | undefined }) => void): unknown;
  off(event: 'error', listener: (error: Error) => void): unknown;
};

/** A connection that gets notifications. `ended` resolves when it has ended, for any reason. */
export type Listening = { ended: Promise<void>; end(): void };

export interface PostgresPool {
  query(text: string, values?: unknown[]): Promise<Answer>;
  connect(): Promise<Client>;
  end(): Promise<void>;
  on(event: 'error', listener: (error: Error) => void): unknown;
}

const BACK_OFF = { baseMs: 50, maxMs: 1_000 };

/** A statement that takes longer ends with an error, in ms. */
const STATEMENT_MS = 30_000;

export type DatabaseOptions = {
  source: string | PostgresPool;
  schema: string;
  listen: string | undefined;
  migrates: boolean;
  patienceMs: number;
  warn(line: string): void;
};

/**
 * The connections of one store.
 *
 * 1. Statements are unnamed and locks end with their transaction, so that a transaction pooler may sit in between.
 * 2. Once the server was reached, calls wait for it to come back, for up to `patienceMs`.
 * 3. A call with a lost reply is repeated only if it is idempotent, or does nothing once it was committed.
 */
export class Database {
  /** Set when a statement is refused because the disk is full; reset when a write finds room again. */
  isFull = false;
  readonly #options: DatabaseOptions;
  #pool: Promise<PostgresPool> | undefined;
  #isReached = false;
  #isClosed = false;

  constructor(options: DatabaseOptions) {
    this.#options = options;
  }

  warn(line: string): void {
    this.#options.warn(line);
  }

  async query(text: string, ...values: readonly unknown[]): Promise<Row[]> {
    return await this.#run(text, values, () => true);
  }

  /**
   * Runs a statement that returns no rows once it was committed. If a reply was lost, `find` then looks for what it did:
   * not before it ran again, because a commit of a server that crashes is seen only after the recovery.
   */
  async queryOnce(text: string, values: readonly unknown[], find: () => Promise<Row[]>): Promise<Row[]> {
    let isReplyLost = false;
    const rows = await this.#run(text, values, error => {
      isReplyLost ||= mayBeCommitted(error);
      return true;
    });
    return rows.length === 0 && isReplyLost ? await find() : rows;
  }

  async #run(
    text: string,
    values: readonly unknown[],
    mayRepeat: (error: unknown) => boolean,
  ): Promise<Row[]> {
    const sql = this.#inSchema(text);
    return (await this.#persist(async pool => await pool.query(sql, [...values]), mayRepeat)).rows;
  }

  /** Runs `work` in one transaction, which is repeated if it surely was not committed. */
  async transact<Result>(work: (query: Transaction) => Promise<Result>): Promise<Result> {
    return await this.#persist(
      async pool =>
        await runTransaction(pool, query =>
          work((text, ...values) => query(this.#inSchema(text), ...values)),
        ),
      error => !(error instanceof EngineError),
    );
  }

  /** Listens to the channel on a connection of its own, or on one of a pool that the caller made. */
  async listen(onPayload: (payload: string) => void): Promise<Listening> {
    const pool = await this.#open();
    const { source, listen } = this.#options;
    const url = listen ?? (typeof source === 'string' ? source : undefined);
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const pooled = url === undefined ? await pool.connect() : undefined;
    const client = pooled ?? (await makeClient(url ?? ''));
    client.on('error', () => resolve());
    client.on('end', () => resolve());
    client.on('notification', ({ payload = '' }) => onPayload(payload));
    // Does not wait for the server to confirm: it may never do so.
    void ended.then(() => ('release' in client ? client.release(true) : client.end().catch(() => {})));
    try {
      await client.query(this.#inSchema('LISTEN "@changes"'));
    } catch (error) {
      resolve();
      throw error;
    }
    return { ended, end: resolve };
  }

  /** In SQL, `@runs` is the store's table of that name, `@now_ms()` its function, and `@changes` in quotes its channel. */
  #inSchema(text: string): string {
    const { schema } = this.#options;
    return text
      .replaceAll(/(?<=['"])@changes/g, `${nameOfSchema(schema)}_changes`)
      .replaceAll(/@(?=[a-z])/g, `${schema}.`);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const pool = await this.#pool?.catch(() => undefined);
    if (typeof this.#options.source === 'string') await pool?.end();
  }

  /** Repeats `work` while the server cannot be reached, or after a deadlock, if `mayRepeat` allows it. */
  async #persist<Result>(
    work: (pool: PostgresPool) => Promise<Result>,
    mayRepeat: (error: unknown) => boolean,
  ): Promise<Result> {
    if (this.#isClosed) throw closedStore();
    const { patienceMs } = this.#options;
    const begun = performance.now();
    for (let failures = 1; ; failures += 1) {
      try {
        const result = await work(await this.#open());
        this.#isReached = true;
        return result;
      } catch (error) {
        if (codeOf(error) === DISK_FULL) this.isFull = true;
        const isOver = !this.#isReached || this.#isClosed || performance.now() - begun > patienceMs;
        if (isOver || !isPassing(error) || !mayRepeat(error)) throw translateError(error);
        const pauseMs = backOffMs(failures, BACK_OFF, Math.random());
        await new Promise(resolve => setTimeout(resolve, pauseMs));
      }
    }
  }

  #open(): Promise<PostgresPool> {
    this.#pool ??= this.#connect().catch(error => {
      this.#pool = undefined;
      throw error;
    });
    return this.#pool;
  }

  async #connect(): Promise<PostgresPool> {
    const { source, schema, migrates } = this.#options;
    const pool = typeof source === 'string' ? await makePool(source) : source;
    // A connection that dies while idle; the next call opens another.
    pool.on('error', () => {});
    if (!migrates) return pool;
    try {
      await runTransaction(pool, query => migrate(query, schema));
      const [setting] = (await pool.query('SHOW synchronous_commit')).rows;
      if (setting?.synchronous_commit === 'off')
        this.warn(
          'PostgreSQL runs with synchronous_commit = off: a crash of the server can lose acknowledged events, and a tool may run twice. Turn it on for this database and role.',
        );
      return pool;
    } catch (error) {
      if (typeof source === 'string') await pool.end();
      throw error;
    }
  }
}

/** `pg` is loaded on first use: it is an optional peer dependency. */
async function makePool(url: string): Promise<PostgresPool> {
  const { Pool } = await loadDriver();
  return new Pool({
    ...connectionOf(url),
    max: 10,
    allowExitOnIdle: true,
    query_timeout: 2 * STATEMENT_MS,
    application_name: 'agentchart',
  });
}

async function makeClient(url: string) {
  const { Client } = await loadDriver();
  const client = new Client({ ...connectionOf(url), application_name: 'agentchart listener' });
  client.on('error', () => {});
  try {
    await client.connect();
  } catch (error) {
    await client.end().catch(() => {});
    throw error;
  }
  // Its types do not have the method.
  if ('unref' in client && typeof client.unref === 'function') client.unref();
  return client;
}

function connectionOf(url: string) {
  return { connectionString: url, connectionTimeoutMillis: 10_000, keepAlive: true };
}

async function loadDriver(): Promise<typeof import('pg').default> {
  try {
    const { default: driver } = await import('pg');
    return driver;
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
    if (code !== 'ERR_MODULE_NOT_FOUND') throw cause;
    const message = 'The package pg is not installed. Install it with: npm install pg';
    throw new EngineError('store-unavailable', message, null, { cause });
  }
}

/** Runs `work` in a transaction and commits it. If `work` or the commit throws, rolls back and throws its error. */
export async function runTransaction<Result>(
  pool: PostgresPool,
  work: (query: Transaction) => Promise<Result>,
): Promise<Result> {
  const client = await pool.connect();
  // A connection that dies between two statements; the next statement rejects.
  const ignore = () => {};
  client.on('error', ignore);
  try {
    await client.query('BEGIN');
    await client.query(`SET LOCAL statement_timeout = ${STATEMENT_MS}`);
    const result = await work(async (text, ...values) => (await client.query(text, [...values])).rows);
    await commit(client);
    client.off('error', ignore);
    client.release();
    return result;
  } catch (error) {
    const isUsable = await client.query('ROLLBACK').then(
      () => true,
      () => false,
    );
    client.off('error', ignore);
    client.release(!isUsable);
    throw error;
  }
}

async function commit(client: Client): Promise<void> {
  try {
    await client.query('COMMIT');
  } catch (error) {
    if (!isPassing(error) || DEADLOCKS.has(codeOf(error))) throw error;
    throw new EngineError(
      'store-reply-lost',
      `PostgreSQL did not report whether it committed: ${messageOf(error)}. Read the run again.`,
      null,
      { cause: error },
    );
  }
}

/**
 * The codes of failures that pass: of Node for connections, of PostgreSQL for a server that starts, stops, or has no
 * connection left. Source: https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const UNSENT = new Set('ECONNREFUSED ENOTFOUND EAI_AGAIN EHOSTUNREACH ENETUNREACH 57P03 53300'.split(' '));
const LOST = new Set('ECONNRESET EPIPE ETIMEDOUT 57P01 57P02 08000 08003 08006 25006'.split(' '));
const DISK_FULL = '53100';
const DEADLOCKS = new Set(['40P01', '40001']);

/** What `pg` and its pool say, without a code, of connections that ended or could not be made. */
const CONNECTION_MESSAGE =
  /Connection terminated|not queryable|connection timeout|timeout exceeded|Query read timeout/i;

function isPassing(error: unknown): boolean {
  return [UNSENT, LOST, DEADLOCKS].some(codes => codes.has(codeOf(error))) || isConnectionMessage(error);
}

function mayBeCommitted(error: unknown): boolean {
  if (LOST.has(codeOf(error))) return true;
  return (
    isConnectionMessage(error) &&
    !/connection timeout|exceeded when trying to connect/i.test(messageOf(error))
  );
}

function isConnectionMessage(error: unknown): boolean {
  return error instanceof Error && codeOf(error) === '' && CONNECTION_MESSAGE.test(error.message);
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

/** Returns the `EngineError` for an error of PostgreSQL or of its connection; other errors as they are. */
function translateError(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof EngineError) return error;
  const code = codeOf(error);
  if (code === DISK_FULL) {
    const message = `The disk of PostgreSQL is full: ${error.message}. No acknowledged write is lost. Free space, then resume the runs.`;
    return new EngineError('store-full', message, null, { cause: error });
  }
  if (code === '' && !isConnectionMessage(error)) return error;
  // An error of several addresses has its messages in its parts.
  const reason = error instanceof AggregateError ? error.errors.map(messageOf).join('; ') : error.message;
  return new EngineError(
    'store-unavailable',
    `PostgreSQL cannot be used: ${reason}. Check the address, the database and the rights of its user.`,
    null,
    { cause: error },
  );
}

/** The tables of a database, and the server's `synchronous_commit`. `version` is `null` if there are no tables. */
export type DescribedDatabase = { version: number | null; current: number; synchronousCommit: string };

/** Describes the tables at `url`. Changes nothing. Throws `store-unavailable` if the server cannot be used. */
export async function describeDatabase(url: string, schema = 'agentchart'): Promise<DescribedDatabase> {
  const pool = await makePool(url);
  pool.on('error', () => {});
  try {
    return await runTransaction(pool, async query => {
      const [setting] = await query('SHOW synchronous_commit');
      return {
        version: await findVersion(query, quoteSchema(schema)),
        current: schemaVersion(),
        synchronousCommit: String(setting?.synchronous_commit),
      };
    });
  } catch (error) {
    throw translateError(error);
  } finally {
    await pool.end();
  }
}
