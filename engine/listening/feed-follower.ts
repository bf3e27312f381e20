import { EngineError, messageOf } from '../../protocol/error.ts';
import type { Open } from '../../protocol/run-view.ts';
import {
  type FeedEntry,
  listAll,
  type Owner,
  type RunRecord,
  type RunStatus,
  type Store,
  type StoreFeed,
} from '../../protocol/store.ts';
import { type Host, POLL_MS, sleep } from '../host/host.ts';

/** How long a process keeps the cursor of a named reader before it must save it again, in ms. */
const LEASE_MS = 15_000;
const PAGE = 100;

export type FeedReader = {
  /** The name of the cursor in the store. Without a name, the reader begins at the end of the feed. */
  name?: string;
  concerns(agent: string): boolean;
  /** Handles an entry. The run's record may already include later entries. Errors are only reported. */
  take(entry: FeedEntry, run: RunRecord, signal: AbortSignal): unknown;
  report(line: string): void;
};

type FollowerOptions = {
  store: Store;
  feed: StoreFeed;
  host: Host;
  owner: Owner;
  isDead(owner: Owner): boolean;
};

/**
 * Passes the entries of a store to a reader, in commit order, until it is stopped.
 *
 * N1 The reader gets one entry at a time. A named reader gets an entry again only if its process ended before the
 *    cursor after that entry was saved.
 * N2 Among all processes, only one reader of each name gets entries.
 * N3 The reader cannot fail a run: it is called outside of all drives, and its errors are reported.
 * N4 Nothing here keeps the process alive.
 */
export class FeedFollower {
  readonly #options: FollowerOptions;
  readonly #reader: FeedReader;
  readonly #stop = new AbortController();
  #wake = () => {};
  #isBusy = false;
  #waiting: (() => void)[] = [];

  constructor(options: FollowerOptions, reader: FeedReader) {
    this.#options = options;
    this.#reader = reader;
    void this.#follow(this.#begin());
  }

  wake(): void {
    this.#wake();
  }

  /** Resolves once the reader has received all entries so far, or is still handling an entry. */
  async caughtUp(): Promise<void> {
    if (this.#isStopped || this.#isBusy) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    this.#wake();
    await promise;
  }

  stop(): void {
    this.#stop.abort();
    this.#wake();
    this.#release(this.#waiting.splice(0));
  }

  /** Takes the cursor. Called immediately, so that all entries written from now on come after it. */
  #begin(): Promise<string | null> {
    const { feed } = this.#options;
    return this.#reader.name === undefined ? feed.end() : this.#takeCursor(this.#reader.name);
  }

  async #takeCursor(name: string): Promise<string | null> {
    const { feed, host, owner, isDead } = this.#options;
    const now = host.now();
    const taken = await feed.take(name, { owner, now, until: now + LEASE_MS, isDead });
    return taken.type === 'taken' ? taken.cursor : null;
  }

  async #follow(begun: Promise<string | null>): Promise<void> {
    let beginning = begun;
    while (!this.#isStopped) {
      try {
        const cursor = await beginning;
        if (cursor !== null) await this.#read(cursor);
      } catch (error) {
        const isClosed = error instanceof EngineError && error.code === 'store-unavailable';
        if (!isClosed) this.#reader.report(`Cannot read the feed of the store: ${messageOf(error)}`);
        this.#release(this.#waiting.splice(0));
      }
      if (this.#isStopped) return;
      this.#release(this.#waiting.splice(0));
      await this.#nap(LEASE_MS / 3);
      beginning = this.#begin();
      beginning.catch(() => {});
    }
  }

  get #isStopped(): boolean {
    return this.#stop.signal.aborted;
  }

  /** Reads from a cursor, until stopped or until another process takes the cursor. */
  async #read(from: string): Promise<void> {
    const { feed } = this.#options;
    const { report } = this.#reader;
    let cursor = from;
    let savedAt = this.#options.host.now();
    while (!this.#isStopped) {
      const waiting = this.#waiting.splice(0);
      const onDamaged = (error: EngineError) => report(`Skipped an entry: ${error.message}`);
      const page = await feed.read({ after: cursor, limit: PAGE, onDamaged });
      const records = new Map<string, RunRecord | undefined>();
      for (const entry of page.entries) {
        const given = await this.#give(entry, records, { cursor, waiting });
        if (given === 'lost') return;
        if (given === 'stopped') break;
        cursor = entry.cursor;
      }
      if (this.#isStopped) break;
      cursor = page.next;
      if (page.entries.length > 0) this.#waiting.unshift(...waiting);
      else this.#release(waiting);
      const isDue = this.#options.host.now() - savedAt > LEASE_MS / 3;
      if ((page.entries.length > 0 || isDue) && !(await this.#save(cursor))) return;
      savedAt = this.#options.host.now();
      if (page.entries.length === 0 && this.#waiting.length === 0) await this.#nap(POLL_MS);
    }
    await this.#save(cursor, 0).catch(() => false);
  }

  /** Renews the lease while the reader works. Returns `lost` if another process took the cursor. */
  async #give(
    entry: FeedEntry,
    records: Map<string, RunRecord | undefined>,
    { cursor, waiting }: { cursor: string; waiting: (() => void)[] },
  ): Promise<'given' | 'stopped' | 'lost'> {
    const { runId } = entry;
    if (!records.has(runId)) records.set(runId, await this.#options.store.get(runId));
    const run = records.get(runId);
    if (this.#isStopped) return 'stopped';
    if (run === undefined || !this.#reader.concerns(run.agent)) return 'given';
    const lost = new AbortController();
    const taken = this.#take(entry, run, AbortSignal.any([this.#stop.signal, lost.signal]));
    if (taken === undefined) return 'given';
    this.#release(waiting);
    this.#release(this.#waiting.splice(0));
    this.#isBusy = true;
    const ended = taken.finally(() => {
      this.#isBusy = false;
    });
    for (;;) {
      const rested = new AbortController();
      await Promise.race([ended, this.#rest(LEASE_MS / 3, rested.signal)]);
      rested.abort();
      if (!this.#isBusy) return this.#isStopped ? 'stopped' : 'given';
      if (await this.#save(cursor)) continue;
      lost.abort();
      await ended;
      return 'lost';
    }
  }

  /** Calls the reader. Returns a promise if the reader does; it never rejects. */
  #take(entry: FeedEntry, run: RunRecord, signal: AbortSignal): Promise<void> | undefined {
    const fail = (error: unknown) => this.#reader.report(`A listener failed: ${messageOf(error)}`);
    try {
      const taken = this.#reader.take(entry, run, signal);
      return taken instanceof Promise ? taken.then(() => {}, fail) : undefined;
    } catch (error) {
      fail(error);
      return undefined;
    }
  }

  async #save(cursor: string, leaseMs = LEASE_MS): Promise<boolean> {
    const { feed, host, owner } = this.#options;
    const { name } = this.#reader;
    if (name === undefined) return true;
    return await feed.save(name, owner.id, { cursor, until: leaseMs === 0 ? 0 : host.now() + leaseMs });
  }

  #release(waiting: readonly (() => void)[]): void {
    for (const resolve of waiting) resolve();
  }

  async #nap(ms: number): Promise<void> {
    const woken = new AbortController();
    this.#wake = () => woken.abort();
    if (this.#isStopped) return;
    await this.#rest(ms, woken.signal);
    this.#wake = () => {};
  }

  #rest(ms: number, signal: AbortSignal): Promise<void> {
    return sleep(this.#options.host, ms, signal, { keepAlive: false });
  }
}

const MOST_WAITING = 10_000;

/** Returns how many runs of the store have each status, as they are now. */
export async function countFollowedRuns(store: Store): Promise<Record<RunStatus, number>> {
  if (store.count !== undefined) return await store.count();
  const counts = { running: 0, waiting: 0, finished: 0, failed: 0, cancelled: 0 };
  for await (const { status } of listAll(store, { onDamaged: () => {} })) counts[status] += 1;
  return counts;
}

/** Returns how many calls and answers wait for a person or a client, without those that wait for the run of a sub-agent. */
export async function countWaits(store: Store): Promise<Record<Exclude<Open['kind'], 'pause'>, number>> {
  const counts = { approval: 0, result: 0, doubt: 0, question: 0, review: 0, 'sign-in': 0 };
  let seen = 0;
  for await (const { waitsFor } of listAll(store, { status: 'waiting', onDamaged: () => {} })) {
    for (const { type, runId } of waitsFor ?? []) if (runId === undefined) counts[type] += 1;
    seen += 1;
    if (seen === MOST_WAITING) break;
  }
  return counts;
}
