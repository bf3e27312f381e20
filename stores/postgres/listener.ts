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
export function makeListener(database: Database, watchers: Watchers) {
  let listening: Listening | undefined;
  let isStarted = false;
  let isClosed = false;
  let cancelTimer = () => {};

  /** The timer keeps no process alive. */
  function after(ms: number, work: () => void): void {
    if (isClosed) return;
    const timer = setTimeout(work, ms);
    timer.unref();
    cancelTimer = () => clearTimeout(timer);
  }

  async function connect(attempt: number): Promise<void> {
    let isProbed = false;
    try {
      const probe = crypto.randomUUID();
      const probed = Promise.withResolvers<boolean>();
      const made = await database.listen(payload => {
        if (payload === probe) probed.resolve(true);
        else tell(payload);
      });
      listening = made;
      const timer = setTimeout(() => probed.resolve(false), PROBE_MS);
      await database.query(`SELECT pg_notify('@changes', $1)`, probe);
      isProbed = await Promise.race([probed.promise, made.ended.then(() => true)]);
      clearTimeout(timer);
      if (isClosed || !isProbed) made.end();
      if (isClosed) return;
      if (!isProbed) return pollInstead();
      watchers.notifyAll();
      await made.ended;
    } catch (error) {
      if (isClosed || isMissingDriver(error)) return;
    }
    listening = undefined;
    if (isClosed) return;
    const next = isProbed ? 1 : attempt + 1;
    after(backOffMs(attempt, BACK_OFF, Math.random()), () => void connect(next));
  }

  function tell(payload: string): void {
    if (payload.startsWith(RUN)) watchers.notifyRun(payload.slice(RUN.length));
    else if (payload === WORK) watchers.notifyWork();
  }

  function pollInstead(): void {
    database.warn(
      'The connection to PostgreSQL passes no notifications, as with a transaction pooler: runs are looked for at intervals, so that decisions take longer. Name a direct connection with the option listen, or AGENTCHART_DB_LISTEN.',
    );
    const seen = new Map<string, number>();
    let workAt = 0;
    const poll = async () => {
      try {
        await lookForChanges(seen);
        if (performance.now() >= workAt) {
          workAt = performance.now() + WORK_POLL_MS;
          watchers.notifyWork();
        }
      } catch {
        // The server cannot be reached; the next look comes.
      }
      after(POLL_MS, poll);
    };
    void poll();
  }

  async function lookForChanges(seen: Map<string, number>): Promise<void> {
    const { topics } = watchers;
    if (topics.length === 0) return;
    const rows = await database.query(
      `SELECT run_id, seq::float8 AS seq FROM @runs WHERE run_id = ANY($1)`,
      topics,
    );
    for (const row of rows) {
      const [topic, seq] = [String(row.run_id), Number(row.seq)];
      if (seen.get(topic) !== seq) watchers.notifyRun(topic);
      seen.set(topic, seq);
    }
    for (const topic of seen.keys()) if (!topics.includes(topic)) seen.delete(topic);
  }

  return {
    start(): void {
      if (isStarted || isClosed) return;
      isStarted = true;
      void connect(1);
    },
    close(): void {
      isClosed = true;
      cancelTimer();
      listening?.end();
    },
  };
}

function isMissingDriver(error: unknown): boolean {
  return error instanceof EngineError && error.message.includes('npm install pg');
}
