import { backOffMs } from '../../protocol/back-off.ts';
import { EngineError } from '../../protocol/error.ts';
import { escapeText } from '../sql/rows.ts';
import type { Watchers } from '../watchers.ts';
import type { Database, Listening } from './database.ts';

/** The payload of a notification that there is work. That of a change is `topicOf` the run, which has a prefix. */
const WORK = 'work';
const RUN = 'run ';

/** A payload has less than 8,000 bytes; longer ids share a topic. */
const LONGEST_TOPIC = 200;

/** How long a notification takes at most, in ms; later, the connection is taken for one that gets none. */
const PROBE_MS = 2_000;

const BACK_OFF = { baseMs: 100, maxMs: 2_000 };

/** How often runs and work are looked for on a connection that gets no notifications, in ms. */
const POLL_MS = 150;
const WORK_POLL_MS = 1_000;

/** SQL that tells watchers of the run in the column `key` about a change. */
export function notifyRun(key: string): string {
  return `pg_notify('@changes', '${RUN}' || left(${key}, ${LONGEST_TOPIC}))::text`;
}

/** The name under which a run is watched: its id as stored, shortened. */
export function topicOf(runId: string): string {
  return [...escapeText(runId)].slice(0, LONGEST_TOPIC).join('');
}

export const NOTIFY_WORK = `pg_notify('@changes', '${WORK}')::text`;

/**
 * Passes the notifications of other processes to the watchers of a store, on a connection of its own.
 *
 * 1. There is one connection, or one attempt to make it; the next attempt begins when it has ended.
 * 2. Every watcher is called once the connection is made, because earlier notifications are lost.
 * 3. A connection that gets no notifications, as behind a transaction pooler, is closed. The store
 *    then looks at the watched runs at intervals, all with one query.
 */
export class Listener {
  readonly #database: Database;
  readonly #watchers: Watchers;
  #listening: Listening | undefined;
  #isStarted = false;
  #isClosed = false;
  #cancelTimer = () => {};

  constructor(database: Database, watchers: Watchers) {
    this.#database = database;
    this.#watchers = watchers;
  }

  start(): void {
    if (this.#isStarted || this.#isClosed) return;
    this.#isStarted = true;
    void this.#connect(1);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelTimer();
    this.#listening?.end();
  }

  async #connect(attempt: number): Promise<void> {
    let isProbed = false;
    try {
      const probe = crypto.randomUUID();
      const probed = Promise.withResolvers<boolean>();
      const listening = await this.#database.listen(payload => {
        if (payload === probe) probed.resolve(true);
        else this.#tell(payload);
      });
      this.#listening = listening;
      const timer = setTimeout(() => probed.resolve(false), PROBE_MS);
      await this.#database.query(`SELECT pg_notify('@changes', $1)`, probe);
      isProbed = await Promise.race([probed.promise, listening.ended.then(() => true)]);
      clearTimeout(timer);
      if (this.#isClosed || !isProbed) listening.end();
      if (this.#isClosed) return;
      if (!isProbed) return this.#pollInstead();
      this.#watchers.notifyAll();
      await listening.ended;
    } catch (error) {
      if (this.#isClosed || isMissingDriver(error)) return;
    }
    this.#listening = undefined;
    if (this.#isClosed) return;
    const next = isProbed ? 1 : attempt + 1;
    this.#after(backOffMs(attempt, BACK_OFF, Math.random()), () => void this.#connect(next));
  }

  #tell(payload: string): void {
    if (payload.startsWith(RUN)) this.#watchers.notifyRun(payload.slice(RUN.length));
    else if (payload === WORK) this.#watchers.notifyWork();
  }

  #pollInstead(): void {
    this.#database.warn(
      'The connection to PostgreSQL passes no notifications, as with a transaction pooler: runs are looked for at intervals, so that decisions take longer. Name a direct connection with the option listen, or AGENTCHART_DB_LISTEN.',
    );
    const seen = new Map<string, number>();
    let workAt = 0;
    const poll = async () => {
      try {
        await this.#lookForChanges(seen);
        if (performance.now() >= workAt) {
          workAt = performance.now() + WORK_POLL_MS;
          this.#watchers.notifyWork();
        }
      } catch {
        // The server cannot be reached; the next look comes.
      }
      this.#after(POLL_MS, poll);
    };
    void poll();
  }

  async #lookForChanges(seen: Map<string, number>): Promise<void> {
    const { topics } = this.#watchers;
    if (topics.length === 0) return;
    const rows = await this.#database.query(
      `SELECT run_id, seq::float8 AS seq FROM @runs WHERE run_id = ANY($1)`,
      topics,
    );
    for (const row of rows) {
      const [topic, seq] = [String(row.run_id), Number(row.seq)];
      if (seen.get(topic) !== seq) this.#watchers.notifyRun(topic);
      seen.set(topic, seq);
    }
    for (const topic of seen.keys()) if (!topics.includes(topic)) seen.delete(topic);
  }

  /** The timer keeps no process alive. */
  #after(ms: number, work: () => void): void {
    if (this.#isClosed) return;
    const timer = setTimeout(work, ms);
    timer.unref();
    this.#cancelTimer = () => clearTimeout(timer);
  }
}

function isMissingDriver(error: unknown): boolean {
  return error instanceof EngineError && error.message.includes('npm install pg');
}
