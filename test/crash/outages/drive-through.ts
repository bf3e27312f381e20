import { setTimeout as delay } from 'node:timers/promises';
import { begin, receive } from '../../../stores/conformance/check.ts';
import { type PostgresProxy, startProxy } from '../../support/stores/postgres-proxy.ts';
import { type PostgresServer, startPostgres } from '../../support/stores/postgres-server.ts';
import { WorkerPool } from '../../support/workers/worker-pool.ts';

const RUNS = 40;
const WORKERS = 2;
const LEASE_MS = 2_000;

/** The longest time until all runs rest, in ms: a busy machine takes long. */
const REST_MS = 240_000;

/** How many replies a proxy must have dropped for the drill to count. */
const LEAST_DROPPED = 20;

type Place = { server: PostgresServer; proxy: PostgresProxy };

/** Makes the fault, and returns what proves that it happened; `null` if it did not. */
type Fault = (place: Place) => Promise<string | null>;

/** What became of the runs that were in flight during a fault. */
export type Outage = {
  fault: string;
  /** What proves that the fault happened; `null` if it did not. */
  proof: string | null;
  /** Runs that a worker drove, and payments that had begun and were not done, right before the fault. */
  inFlight: number;
  unpaid: number;
  finished: number;
  /** Runs in doubt; no worker died, so none may be. */
  doubted: number;
  /** Runs that neither finished nor are in doubt, and acknowledged entries that are missing. */
  lost: number;
  /** Payments that began twice, and appended entries that occur twice. */
  doubles: number;
  /** How often a worker took over a run of the other one, whose lease had run out. */
  takenOver: number;
  seconds: number;
};

/** The faults by name. Two workers drive 40 runs through each of them. */
export const FAULTS: Readonly<Record<string, Fault>> = {
  async stopped({ server }) {
    const pid = server.pid();
    await server.crash();
    await delay(2 * LEASE_MS);
    await server.start();
    return server.pid() === pid
      ? null
      : `the server stood still for ${2 * LEASE_MS} ms and has another process`;
  },
  async paused({ server }) {
    const processes = await server.pauseFor(2 * LEASE_MS);
    return `${processes} processes gave no answer for ${2 * LEASE_MS} ms`;
  },
  async 'cut after COMMIT'({ proxy }) {
    proxy.dropReplies(/INSERT INTO "agentchart"\.appends/, { every: 4 });
    const isCut = () => proxy.dropped() >= LEAST_DROPPED;
    for (const end = Date.now() + REST_MS; !isCut() && Date.now() < end; ) await delay(50);
    return isCut() ? `at least ${LEAST_DROPPED} replies to commits were dropped` : null;
  },
};

/** Kills a server, promotes its synchronous standby, and sends the clients there. Workers drive 40 runs meanwhile. */
export async function failOver(): Promise<Outage> {
  const primary = await startPostgres();
  const standby = await primary.addStandby();
  const fault: Fault = async ({ proxy }) => {
    await primary.crash();
    // The clients meet a server that refuses to write before it is promoted.
    proxy.turnTo(standby.url);
    await delay(1_000);
    const timeline = await standby.promote();
    return timeline > 1 ? `the standby is on timeline ${timeline}` : null;
  };
  try {
    return await driveThrough('failed over', primary, fault);
  } finally {
    await standby.stop();
  }
}

/** Has two workers drive 40 runs on the server through a fault, while this process appends and notes what is acknowledged. */
export async function driveThrough(name: string, server: PostgresServer, fault: Fault): Promise<Outage> {
  const began = performance.now();
  const proxy = await startProxy(server.url);
  const pool = new WorkerPool(proxy.url);
  try {
    const pace = { modelMs: 500, toolMs: 3_000, leaseMs: LEASE_MS };
    const start = () => pool.startWorker(pace, ['--slots', String(RUNS / WORKERS)]);
    const workers = await Promise.all(Array.from({ length: WORKERS }, start));
    const ids = await pool.begin(RUNS);
    const countHeld = async () =>
      (await pool.records()).filter(({ status, owner }) => status === 'running' && owner !== undefined)
        .length;
    await pool.until(
      async () => pool.noted('begin').length >= RUNS / 2 && (await countHeld()) === RUNS,
      20_000,
    );
    const inFlight = await countHeld();
    const unpaid = pool.noted('begin').length - pool.noted('paid').length;
    const writer = new Writer(pool);
    await writer.begin();
    const proof = await fault({ server, proxy });
    const isAtRest = await pool.rests(REST_MS);
    const written = await writer.end();
    const outage = {
      fault: name,
      proof,
      inFlight,
      unpaid,
      finished: 0,
      doubted: 0,
      lost: 0,
      doubles: 0,
      takenOver: 0,
    };
    outage.lost =
      written.lost + (isAtRest ? 0 : 1) + workers.filter(({ child }) => child.exitCode !== null).length;
    outage.doubles = written.doubles + pool.doubles().length;
    const statuses = new Map((await pool.records()).map(({ runId, status }) => [runId, status]));
    for (const runId of ids) {
      const words = await pool.words(runId);
      if (await pool.isInDoubt(runId)) outage.doubted += 1;
      else if (statuses.get(runId) === 'finished') outage.finished += 1;
      else outage.lost += 1;
      outage.takenOver += words.filter(word => word === 'run.claimed').length - 1;
    }
    return { ...outage, seconds: Math.round((performance.now() - began) / 1_000) };
  } finally {
    await pool.close();
    await proxy.close();
    await server.stop();
  }
}

const WRITTEN = 'written';

/** Appends to a run of its own, which no process drives, one message after the other, and remembers the acknowledged ones. */
class Writer {
  readonly #pool: WorkerPool;
  readonly #acknowledged: string[] = [];
  #isOver = false;
  #writing: Promise<void> = Promise.resolve();

  constructor(pool: WorkerPool) {
    this.#pool = pool;
  }

  async begin(): Promise<void> {
    await this.#pool.store.create(begin(WRITTEN), undefined, { events: [], status: 'waiting' });
    this.#writing = this.#write();
  }

  async #write(): Promise<void> {
    for (let after = 1; !this.#isOver; after += 1) {
      const text = `message ${after}`;
      const guard = { after, input: true } as const;
      const result = await this.#pool.store.append(WRITTEN, guard, [receive(text)], { status: 'waiting' });
      if (result.type !== 'appended') throw new Error(`${text} was not appended: ${result.type}.`);
      this.#acknowledged.push(text);
      await delay(20);
    }
  }

  async end(): Promise<{ lost: number; doubles: number }> {
    this.#isOver = true;
    await this.#writing;
    const [, ...stored] = (await this.#pool.store.read(WRITTEN)).map(({ event }) => JSON.stringify(event));
    const expected = this.#acknowledged.map(text => JSON.stringify(receive(text)));
    return {
      lost: expected.filter(event => !stored.includes(event)).length,
      doubles: stored.length - new Set(stored).size,
    };
  }
}
