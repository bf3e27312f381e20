import { type Caller, seesRun } from '../../../access/caller.ts';
import type { Host } from '../../../engine/host/host.ts';
import { messageOf } from '../../../protocol/error.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { RunRecord, Store } from '../../../protocol/store.ts';
import { remember } from '../../remember.ts';
import { type Inbox, keysOf } from '../inbox/read-inbox.ts';
import { summarizeRun } from '../run-view.ts';
import { type Frame, frame, type Portion } from './event-stream.ts';

/** How often a store's feed is read, and how often a store without a feed is listed, in ms. */
const FEED_MS = 200;
const LIST_MS = 1_000;

const PAGE = 1_000;

/** How many changed runs may be queued for one reader. Beyond that, `ready` tells it to read the lists again. */
const MOST_WAITING = 1_000;

const MOST_KNOWN = 20_000;

/** A reader. `take` queues a change, which replaces one with the same key. */
type Subscriber = { caller: Caller; take(key: string, made: Frame): void; end(): void };

const READY = frame('ready', {});

type ChangesOptions = { store: Store; host: Host; inbox: Inbox; log(line: string): void };

/**
 * Publishes the changes of all runs to readers of lists and inboxes.
 *
 * W1 One poller serves all subscribers of a process. Without subscribers, it stops.
 * W2 A subscriber gets changes of the runs that its caller may see, at least the latest change of each run.
 * W3 For a slow subscriber, at most one change of each kind is queued for a run. If too many are queued, `ready` tells
 *    it to read the lists again.
 */
export class RunChanges {
  readonly #options: ChangesOptions;
  readonly #subscribers = new Set<Subscriber>();
  /** By run: the last change that was seen. `asked` are the keys of its items in the inbox. */
  readonly #known = new Map<string, { mark: string; asked: string }>();
  #cursor: string | null = null;
  #cancelPoll = () => {};
  #beginning: Promise<void> | null = null;
  /** Counts started and stopped polls, so that a stopped poll has no further effects. */
  #generation = 0;

  constructor(options: ChangesOptions) {
    this.#options = options;
  }

  close(): void {
    for (const { end } of this.#subscribers) end();
  }

  /** The changes for a reader, from `ready` on. Ends (with `false`) when `left` is aborted, or if the start fails. */
  async *follow(caller: Caller, left: AbortSignal): AsyncGenerator<Portion, boolean> {
    const waiting = new Map<string, Frame>();
    let isOver = false;
    let wake = () => {};
    const subscriber: Subscriber = {
      caller,
      take(key, made) {
        if (waiting.size >= MOST_WAITING && !waiting.has(key)) {
          waiting.clear();
          waiting.set('ready', READY);
        } else {
          waiting.delete(key);
          waiting.set(key, made);
        }
        wake();
      },
      end: () => {
        isOver = true;
        left.removeEventListener('abort', subscriber.end);
        if (this.#subscribers.delete(subscriber) && this.#subscribers.size === 0) this.#stop();
        wake();
      },
    };
    this.#subscribers.add(subscriber);
    left.addEventListener('abort', subscriber.end);
    this.#begin().then(() => subscriber.take('ready', READY), subscriber.end);
    try {
      while (!isOver) {
        if (waiting.size === 0) {
          await new Promise<void>(resolve => {
            wake = resolve;
          });
          continue;
        }
        const portion = [...waiting.values()];
        waiting.clear();
        yield portion;
      }
      return false;
    } finally {
      subscriber.end();
    }
  }

  /** Notifies subscribers of a deleted run, because a store's feed does not report deletions. */
  noteDeleted({ runId, labels }: Pick<RunRecord, 'runId' | 'labels'>): void {
    this.#known.delete(runId);
    this.#send(labels, `removed ${runId}`, frame('removed', { runId }));
  }

  async #begin(): Promise<void> {
    this.#beginning ??= this.#start();
    await this.#beginning;
  }

  async #start(): Promise<void> {
    this.#generation += 1;
    const generation = this.#generation;
    try {
      const { feed } = this.#options.store;
      if (feed === undefined) await this.#list(() => {});
      else this.#cursor = await feed.end();
      this.#schedule(generation);
    } catch (error) {
      this.#options.log(`Cannot look for changes of runs: ${messageOf(error)}`);
      if (generation === this.#generation) this.#stop();
      throw error;
    }
  }

  #stop(): void {
    this.#generation += 1;
    this.#cancelPoll();
    this.#beginning = null;
    this.#known.clear();
  }

  #schedule(generation: number): void {
    if (generation !== this.#generation || this.#subscribers.size === 0) return;
    const { host, store, log } = this.#options;
    const poll = () => {
      this.#poll()
        .catch(error => log(`Cannot look for changes of runs: ${messageOf(error)}`))
        .finally(() => this.#schedule(generation));
    };
    const ms = store.feed === undefined ? LIST_MS : FEED_MS;
    this.#cancelPoll = host.setTimer(ms, poll, { keepAlive: false });
  }

  async #poll(): Promise<void> {
    const changed: RunRecord[] = [];
    if (this.#options.store.feed === undefined) await this.#list(record => changed.push(record));
    else changed.push(...(await this.#readFeed()));
    for (const record of changed) await this.#publish(record);
  }

  async #readFeed(): Promise<RunRecord[]> {
    const { store } = this.#options;
    const { feed } = store;
    if (feed === undefined || this.#cursor === null) return [];
    const page = await feed.read({ after: this.#cursor, limit: PAGE, onDamaged: () => {} });
    this.#cursor = page.next;
    const records: RunRecord[] = [];
    for (const runId of new Set(page.entries.map(entry => entry.runId))) {
      const record = await store.get(runId);
      if (record !== undefined) records.push(record);
    }
    return records;
  }

  /** For stores without a feed: the runs that have not ended, and the newest. */
  async #list(onChanged: (record: RunRecord) => void): Promise<void> {
    const { store } = this.#options;
    for (const status of ['running', 'waiting', undefined] as const) {
      const filter = { limit: status === undefined ? 100 : PAGE, onDamaged: () => {} };
      const { runs } = await store.list({ ...filter, ...omitUndefined({ status }) });
      for (const record of runs) {
        const known = this.#known.get(record.runId);
        const mark = `${record.seq} ${record.status}`;
        if (known?.mark === mark) continue;
        remember(this.#known, record.runId, { mark, asked: known?.asked ?? '' }, MOST_KNOWN);
        onChanged(record);
      }
    }
  }

  async #publish(record: RunRecord): Promise<void> {
    const { inbox } = this.#options;
    const { runId, labels, seq, status } = record;
    const asked = keysOf(record).join('\n');
    const before = this.#known.get(runId);
    remember(this.#known, runId, { mark: `${seq} ${status}`, asked }, MOST_KNOWN);
    this.#send(labels, `summary ${runId}`, frame('summary', summarizeRun(record)));
    if (before?.asked === asked && asked === '') return;
    const items = await inbox.itemsOf(record);
    this.#send(labels, `inbox ${runId}`, frame('inbox', { runId, items }));
  }

  #send(labels: RunRecord['labels'], key: string, made: Frame): void {
    for (const { caller, take } of this.#subscribers) if (seesRun(caller, labels)) take(key, made);
  }
}
