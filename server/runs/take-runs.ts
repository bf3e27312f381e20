import { elapsedSince, type Host, type HostMoment, momentOf } from '../../engine/host/host.ts';
import { isOwnerDead } from '../../engine/host/owner.ts';
import { chartIdentity } from '../../machines/snapshot.ts';
import { backOffMs } from '../../protocol/back-off.ts';
import { messageOf } from '../../protocol/error.ts';
import { listAll, type RunRecord, type Store, type WorkRequest } from '../../protocol/store.ts';
import { isWork, leaseOf } from '../../stores/lease.ts';
import { remember } from '../remember.ts';

type RunTakerOptions = {
  store: Store;
  host: Host;
  agents: WorkRequest['agents'];
  slots?: number;
  /** The shortest lease of the agents, in ms. Default: 10 seconds. */
  leaseMs?: number | undefined;
  /** Drives the run until it rests, has ended, or another process drives it. Never rejects. */
  drive(runId: string): Promise<void>;
  /** Called with each periodic search: migrates the runs that no process can drive now. */
  migrate?(): Promise<void>;
  log(line: string): void;
};

export const POLL_INTERVAL_MS = 5_000;

const BACK_OFF = { baseMs: POLL_INTERVAL_MS, maxMs: 10 * 60_000 };

/** How long a taken run is hidden from other processes, unless it is claimed earlier, in ms. */
const RESERVE_MS = 5_000;

const LEASE_MS = 10_000;

const MOST_TAKEN = 100;

const MOST_REMEMBERED = 1_000;

/** `seq`: of the last entry when the run was last taken. `failures`: how often it was taken without progress. */
type Attempt = { seq: number; next: number; failures: number };

/**
 * Takes the runs that have work and no driver, and drives them in this process: runs whose process is gone, runs that
 * were handed over, runs that were started or decided by a process that does not drive, and resting runs whose deadline
 * has come or whose sub-agent's run has ended.
 *
 * K1 The taker searches for work when the store reports some, and periodically.
 * K2 A driver that may still be alive keeps its run until its lease expires. If the store did not answer for so long
 *    that leases may have expired, their owners get one more lease time, because they could not renew.
 * K3 A run without progress is driven again after waits that double.
 * K4 A run that cannot be read is logged once and does not affect the others.
 * K5 Only runs of this chart are taken, and of these agents and versions.
 */
export class RunTaker {
  readonly #options: RunTakerOptions;
  readonly #attempts = new Map<string, Attempt>();
  readonly #logged = new Set<string>();
  /** The runs that are driven, by id. */
  readonly #busy = new Map<string, Promise<void>>();
  #taking: Promise<string[]> | null = null;
  #isAsked = false;
  #isStopped = false;
  #answered: HostMoment | null = null;
  #sparesUntil = 0;
  #cancelTimer = () => {};
  #unwatch = () => {};

  constructor(options: RunTakerOptions) {
    this.#options = options;
  }

  get busy(): number {
    return this.#busy.size;
  }

  /** Takes work from now until `stop`. Returns the runs that are taken now. Rejects if the store cannot be read. */
  async start(): Promise<string[]> {
    this.#unwatch = this.#options.store.watchWork?.(() => this.#look()) ?? (() => {});
    this.#schedule();
    return await this.#take();
  }

  /** Resolves once a search in progress has ended, whose runs are not taken, and so have the drives of those taken before. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelTimer();
    this.#unwatch();
    await this.#taking?.catch(() => {});
    await Promise.all(this.#busy.values());
  }

  #schedule(): void {
    this.#cancelTimer();
    if (this.#isStopped) return;
    const poll = () => {
      this.#look();
      this.#migrate();
      this.#schedule();
    };
    const ms = Math.min(POLL_INTERVAL_MS, this.#leaseMs / 3);
    this.#cancelTimer = this.#options.host.setTimer(ms, poll, { keepAlive: false });
  }

  #look(): void {
    this.#take().catch(error => this.#logOnce(`Cannot look for runs to drive: ${messageOf(error)}`));
  }

  #migrate(): void {
    this.#options
      .migrate?.()
      .catch(error => this.#logOnce(`Cannot look for runs to migrate: ${messageOf(error)}`));
  }

  /** If called while it is taking, it takes once more afterwards. */
  #take(): Promise<string[]> {
    this.#isAsked = true;
    this.#taking ??= this.#takeAll().finally(() => {
      this.#taking = null;
    });
    return this.#taking;
  }

  async #takeAll(): Promise<string[]> {
    const begun: string[] = [];
    while (this.#isAsked && !this.#isStopped) {
      this.#isAsked = false;
      const limit = Math.min(MOST_TAKEN, (this.#options.slots ?? Number.POSITIVE_INFINITY) - this.#busy.size);
      // A request for zero runs still shows whether the store answers.
      const work = await this.#read(Math.max(0, limit));
      const taken = work.filter(record => this.#begin(record));
      begun.push(...taken.map(({ runId }) => runId));
      if (taken.length > 0 && work.length === limit) this.#isAsked = true;
    }
    return begun;
  }

  async countWork(limit: number): Promise<number> {
    return await this.#count(this.#requestFor(limit));
  }

  /** Runs that this process leaves to others, because of their version or chart. */
  async countLeft(limit: number): Promise<number> {
    const own = await this.countWork(limit);
    const { charts: _, ...request } = this.#requestFor(limit + own);
    const agents = request.agents.map(({ name }) => ({ name }));
    return Math.max(0, (await this.#count({ ...request, agents })) - own);
  }

  async #count(request: WorkRequest): Promise<number> {
    const { store } = this.#options;
    if (request.agents.length === 0) return 0;
    return (await store.countWork?.(request)) ?? (await listWork(store, request)).length;
  }

  #requestFor(limit: number): WorkRequest {
    const { host, agents } = this.#options;
    const { version, hash } = chartIdentity();
    return {
      agents,
      limit,
      charts: [{ version, hash }],
      reserveMs: RESERVE_MS,
      now: host.now(),
      isDead: isOwnerDead,
      onDamaged: error => this.#logOnce(`Cannot drive a run: ${error.message}`),
    };
  }

  async #read(limit: number): Promise<RunRecord[]> {
    const { store, host, agents } = this.#options;
    if (agents.length === 0) return [];
    const request = this.#requestFor(limit);
    const asked = momentOf(host);
    const last = this.#answered ?? asked;
    const work = await (store.takeWork?.(request) ?? listWork(store, request));
    // A holder renews after a third of its lease.
    if (elapsedSince(last, host) > (2 / 3) * this.#leaseMs)
      this.#sparesUntil = host.monotonic() + this.#leaseMs;
    this.#answered = asked;
    return work.filter(record => !this.#spares(record));
  }

  get #leaseMs(): number {
    return this.#options.leaseMs ?? LEASE_MS;
  }

  #spares({ owner }: RunRecord): boolean {
    const isSparing = this.#options.host.monotonic() < this.#sparesUntil;
    return isSparing && owner !== undefined && !isOwnerDead(owner);
  }

  /** False if the run made no progress and has to wait, or if this process already drives it. */
  #begin({ runId, seq, status }: RunRecord): boolean {
    const { host, drive } = this.#options;
    const last = this.#attempts.get(runId);
    // Each attempt appends its claim.
    const isStuck = last !== undefined && seq <= last.seq + 1;
    if (this.#isStopped || this.#busy.has(runId) || (isStuck && host.now() < last.next)) return false;
    // A resting run without a new claim may wait for something that wakes no process: see `Chart.polls`.
    const isWaiting = status === 'waiting' && seq === last?.seq;
    const failures = isStuck && !isWaiting ? last.failures + 1 : 1;
    const attempt = { seq, failures, next: host.now() + backOffMs(failures, BACK_OFF) };
    remember(this.#attempts, runId, attempt, MOST_REMEMBERED);
    const driven = drive(runId).finally(() => {
      this.#busy.delete(runId);
      if (this.#options.slots !== undefined) this.#look();
    });
    this.#busy.set(runId, driven);
    return true;
  }

  #logOnce(line: string): void {
    if (this.#isStopped || this.#logged.has(line)) return;
    if (this.#logged.size >= MOST_REMEMBERED) this.#logged.clear();
    this.#logged.add(line);
    this.#options.log(line);
  }
}

/** For a store without `takeWork`. The runs are not reserved: the first process to claim a run drives it. */
async function listWork(store: Store, request: WorkRequest): Promise<RunRecord[]> {
  const { onDamaged = () => {} } = request;
  const work: RunRecord[] = [];
  for (const status of ['running', 'waiting'] as const)
    for await (const record of listAll(store, { status, onDamaged }))
      if (isWork({ ...record, lease: leaseOf(record), reservedUntil: undefined }, request)) work.push(record);
  return work.slice(0, request.limit);
}
