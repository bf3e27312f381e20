import { nextReaderTurn } from '../../../engine/events/reader-turns.ts';
import type { Host } from '../../../engine/host/host.ts';
import { readJournal } from '../../../engine/journal/read-journal.ts';
import { type PrivateHappening, PrivateRun } from '../../../engine/run/private-run.ts';
import type { Run, RunHappening } from '../../../engine/run/run.ts';
import { EngineError, messageOf } from '../../../protocol/error.ts';
import { ApiError } from '../../error-envelope.ts';
import { GatewayAnswer, type PlaceInRun } from '../answer/answer.ts';
import type { AnswerEnd, AnswerEvent, AnswerWriter } from '../answer/answer-event.ts';
import { isAnswered, LEFT, RESPONSES, type ResponseHead, type ResponseSpec } from '../runs/response-spec.ts';
import { Opening } from './opening.ts';

const MOST_EVENTS = 10_000;

/** How long a client waits for the head of its answer, in ms: after that, keep-alive texts follow. */
const LONGEST_SILENCE_MS = 15_000;

/** Some clients lose an event that a network read splits. */
const MOST_IN_BATCH = 32;

export type MakeWriter<Wire, Whole> = (
  head: ResponseHead,
  emit: (wire: Wire) => void,
  firstNumber?: number,
) => AnswerWriter<Whole>;

/** How a response ended. `retryAfter`: when the client may send a failed request again, in s; `null` if never. */
export type ResponseEnd = { end: AnswerEnd; retryAfter: number | null };

export type FinishedResponse<Whole> = ResponseEnd & { whole: Whole };

/** A reader of a response; throws an `ApiError` if this process stops following the run before its end. */
export type LiveResponse<Wire, Whole> = {
  id: string;
  runId: string;
  host: Host;
  /** As far as its readers have requested its events; `null` before. */
  end(): AnswerEnd | null;
  /** Resolves once the answer has begun: see `Opening`. How it failed, if it did before; else `null`. */
  begun(): Promise<ResponseEnd | null>;
  /** After number `after`, by default all. Readers at the same place share a batch. Stopping does not affect the run. */
  batches(after?: number): AsyncGenerator<readonly Wire[], void>;
  /** As a later `GET` returns it, without failed attempts. */
  finished(): Promise<FinishedResponse<Whole>>;
  /** Whether a repeated request would do again what this one has done or still does. */
  hasEffects(): boolean;
  /** Ends this reader. The last one that leaves a request that ends with its connection cancels the run. */
  leave(): void;
};

type FeedOptions<Wire, Whole> = {
  host: Host;
  from: number;
  /** Where the answer begins, if that is known: earlier entries are not read. */
  begin?: PlaceInRun | undefined;
  write: MakeWriter<Wire, Whole>;
  firstNumber?: number;
  /** Settles when the run settles; rejects if this process cannot drive it further. */
  settled?: Promise<unknown>;
  opening?: Opening;
  /** Before the end: what lives until its answer is kept, what only reads stops, what ends with its connection cancels the run. */
  whenUnread: 'keep' | 'stop' | 'cancel';
  keepsAll?: boolean;
  /** No further reader should be added: the last one has left, or the events break off. */
  onClosed?(): void;
  closing: AbortSignal;
  log?(line: string): void;
};

/**
 * Follows a run, writes the answer to one request in the protocol of its client, and shares the events among readers.
 *
 * F1 All readers get the same events with the same numbers, made when the first of them asks. Without readers, new run
 *    events stay in the run's bounded queue.
 * F2 The last `MOST_EVENTS` events are kept, or all. A reader that needs earlier ones gets an error. Of a private run,
 *    those that its one reader has are not kept.
 * F3 After `closing`, readers get the error `shutting-down`; the run is not changed.
 * F4 A response ends as failed only if its run has ended. If this process cannot drive a run that any process can
 *    continue or has to end, readers get an error that says so.
 * F5 Readers that have events waiting take turns, so that the process does its other work meanwhile.
 * F6 If the run is cancelled because its last reader left, calls that have started finish, and no reader can join.
 */
export class ResponseFeed<Wire, Whole> {
  readonly id: string;
  readonly spec: ResponseSpec;
  readonly run: Run | PrivateRun;
  readonly #head: ResponseHead;
  readonly #options: FeedOptions<Wire, Whole>;
  readonly #answer: GatewayAnswer;
  readonly #writer: AnswerWriter<Whole>;
  #end: ResponseEnd | null = null;
  readonly #opening: Opening;
  #hasTold = false;
  readonly #happenings: AsyncIterator<readonly (RunHappening | PrivateHappening)[], void>;
  readonly #readers = new Set<LiveResponse<Wire, Whole>>();
  #whenUnread: FeedOptions<Wire, Whole>['whenUnread'];
  #events: Wire[] = [];
  #first: number;
  #lastSeq = 0;
  /** Shared by readers, by the number of the first event; empty with one reader. */
  readonly #batches = new Map<number, readonly Wire[]>();
  #pulling: Promise<void> | null = null;
  #changed = Promise.withResolvers<void>();
  #failure: { error: unknown } | null = null;
  #givingUp: Promise<void> | null = null;
  #broken: { error: unknown } | null = null;
  #isLeft = false;

  constructor(run: Run | PrivateRun, head: ResponseHead, options: FeedOptions<Wire, Whole>) {
    this.#head = head;
    this.id = head.id;
    this.spec = head.spec;
    this.run = run;
    this.#options = options;
    this.#whenUnread = options.whenUnread;
    const { from, begin, write, firstNumber = 0, opening = new Opening({ streams: true }) } = options;
    this.#opening = opening;
    this.#first = firstNumber;
    this.#answer = new GatewayAnswer(head.spec, { runId: run.id, from, begin });
    this.#lastSeq = begin?.seq ?? 0;
    this.#writer = write(head, wire => this.#events.push(wire), firstNumber);
    this.#happenings =
      run instanceof PrivateRun ? run.happenings() : run.eventBatches({ follow: true, after: this.#lastSeq });
    this.#write(this.#answer.begin());
    options.closing.addEventListener('abort', this.#close);
    options.settled?.catch(error => {
      // The journal has the whole response: what failed came after it.
      if (isAnswered(run.durable.state, this.spec)) return;
      this.#failure = { error };
      this.#stop();
      if (options.whenUnread === 'keep') void this.#giveUp(error).finally(() => this.#wake());
    });
  }

  get isOver(): boolean {
    return this.#answer.isOver;
  }

  /** Its last reader has left, and its run is being cancelled. */
  get isLeft(): boolean {
    return this.#isLeft;
  }

  /** Whether it answers a client here, so that no other process has to end its run. */
  get isAnswering(): boolean {
    return !this.#isLeft && !this.isOver && this.#broken === null;
  }

  isWrittenBy<OtherWire, OtherWhole>(
    write: MakeWriter<OtherWire, OtherWhole>,
  ): this is ResponseFeed<OtherWire, OtherWhole> {
    return this.#options.write === (write as unknown);
  }

  get size(): number {
    return this.#events.length;
  }

  get lastSeq(): number {
    return this.#lastSeq;
  }

  keeps(after: number): boolean {
    return after + 1 >= this.#first;
  }

  attach(): LiveResponse<Wire, Whole> {
    let hasLeft = false;
    const detach = () => {
      if (this.#readers.delete(reader)) this.#afterLeaving();
    };
    const read = (waitForTurn: boolean, after?: number) =>
      this.#read({ hasLeft: () => hasLeft, detach, waitForTurn }, after);
    const reader: LiveResponse<Wire, Whole> = {
      id: this.id,
      runId: this.run.id,
      host: this.#options.host,
      end: () => this.#end?.end ?? null,
      begun: async () => {
        await this.#begin(() => hasLeft);
        if (hasLeft) throw new ApiError('request-aborted', LEFT.client);
        return !this.#hasTold && this.#end?.end.status === 'failed' ? this.#end : null;
      },
      batches: after => read(true, after),
      finished: async () => {
        for await (const _batch of read(false));
        if (hasLeft) throw new ApiError('request-aborted', LEFT.client);
        return await this.#recorded();
      },
      hasEffects: () => this.#options.whenUnread !== 'cancel' || this.#answer.hasRunTool,
      leave() {
        hasLeft = true;
        detach();
      },
    };
    this.#readers.add(reader);
    return reader;
  }
  /** Stops following the run once it has no readers. No reader can be added afterwards. */
  release(): void {
    this.#whenUnread = 'stop';
    if (this.#readers.size === 0) this.#stop();
  }

  async #begin(hasLeft: () => boolean): Promise<void> {
    const opening = this.#opening;
    const open = () => opening.open();
    const cancelTimer = this.#options.host.setTimer(LONGEST_SILENCE_MS, open, { keepAlive: false });
    try {
      while (!opening.isOpen && !this.isOver && !hasLeft())
        await Promise.race([this.#more(), opening.opened]);
    } finally {
      cancelTimer();
    }
  }

  /** Without what readers got about failed attempts. */
  async #recorded(): Promise<FinishedResponse<Whole>> {
    if (this.#end === null) throw new Error('a response that has not ended is not recorded');
    if (!this.#answer.isAhead) return { whole: this.#writer.whole, ...this.#end };
    const { from, begin, write } = this.#options;
    const answer = new GatewayAnswer(this.spec, { runId: this.run.id, from, begin });
    const writer = write(this.#head, () => {});
    let { end, retryAfter } = this.#end;
    const { run } = this;
    const entries =
      run instanceof PrivateRun ? run.entries : await readJournal(run.source.store, run.id, begin?.seq);
    for (const entry of entries)
      for (const event of answer.takeEntry(entry)) {
        writer.take(event);
        if (event.type === 'ended') ({ end, retryAfter } = event);
      }
    return { whole: writer.whole, end, retryAfter };
  }

  async *#read(
    { hasLeft, detach, waitForTurn }: { hasLeft(): boolean; detach(): void; waitForTurn: boolean },
    after = this.#first - 1,
  ): AsyncGenerator<readonly Wire[], void> {
    let isCurrent = false;
    try {
      for (let next = after + 1; !hasLeft(); ) {
        if (next < this.#first) throw new Error('a reader of a response fell behind');
        const isWaiting = next < this.#first + this.#events.length;
        if (isWaiting && waitForTurn && !(isCurrent && this.#readers.size === 1)) {
          isCurrent = true;
          await nextReaderTurn();
          if (hasLeft()) return;
        }
        const batch = this.#batchFrom(next);
        next += batch.length;
        if (this.run instanceof PrivateRun) this.#forgetBefore(next);
        if (batch.length > 0) {
          yield batch;
          isCurrent = false;
        } else if (this.isOver) return;
        else {
          await this.#more();
          isCurrent = true;
        }
      }
    } finally {
      detach();
    }
  }

  /** No other reader can come: the run has one. */
  #forgetBefore(next: number): void {
    this.#events = this.#events.slice(next - this.#first);
    this.#first = next;
  }

  #batchFrom(next: number): readonly Wire[] {
    const from = next - this.#first;
    const made = this.#events.slice(from, from + MOST_IN_BATCH);
    if (this.#readers.size < 2) return made;
    const known = this.#batches.get(next);
    if (known?.length === made.length) return known;
    this.#batches.set(next, made);
    return made;
  }

  async #more(): Promise<void> {
    if (this.#broken !== null) throw this.#broken.error;
    const { promise } = this.#changed;
    this.#pulling ??= this.#pull()
      .catch(error => this.#break(error))
      .finally(() => {
        this.#pulling = null;
        this.#wake();
      });
    await promise;
  }

  async #pull(): Promise<void> {
    const step = await this.#happenings.next().catch(error => ({ error }));
    if ('error' in step) return await this.#giveUp(step.error);
    if (this.#failure !== null) return await this.#giveUp(this.#failure.error);
    if (step.done === true) return await this.#giveUp(new Error('the run ended before its response did'));
    for (const happening of step.value) this.#write(this.#take(happening));
    if (this.isOver) this.#stop();
  }

  #take(happening: RunHappening | PrivateHappening): AnswerEvent[] {
    if ('entry' in happening) {
      this.#lastSeq = happening.entry.seq;
      return this.#answer.takeEntry(happening.entry, happening.state);
    }
    if (!('seq' in happening)) return this.#answer.takeDelta(happening);
    const { seq, ...event } = happening;
    this.#lastSeq = seq;
    return this.#answer.takeEntry({ seq, event });
  }

  #write(told: readonly AnswerEvent[]): void {
    for (const event of told) {
      if (event.type === 'ended') this.#end = { end: event.end, retryAfter: event.retryAfter };
      else if (!BEFORE_ANSWER.includes(event.type)) this.#hasTold = true;
      this.#writer.take(event);
    }
    if (this.#hasTold) this.#opening.open();
    if (this.#options.keepsAll === true || this.#events.length <= 2 * MOST_EVENTS) return;
    this.#first += this.#events.length - MOST_EVENTS;
    this.#batches.clear();
    this.#events = this.#events.slice(-MOST_EVENTS);
  }

  #giveUp(error: unknown): Promise<void> {
    this.#givingUp ??= this.#fail(error);
    return this.#givingUp;
  }

  /** Ends the run, unless it can be continued. */
  async #fail(error: unknown): Promise<void> {
    if (this.#broken !== null || this.#isLeft) return;
    const { whenUnread, host, log = () => {} } = this.#options;
    log(`The response of run ${this.run.id} failed: ${messageOf(error)}`);
    const isTakenOn = whenUnread === 'stop' || isPassing(error);
    const hasEnded = !isTakenOn && (await this.#cancel({ reason: FAILED }));
    if (isTakenOn || (!hasEnded && whenUnread !== 'cancel')) return this.#break(this.#interruption(error));
    this.#write(this.#answer.fail(host.now(), { code: 'server_error', message: FAILED }));
  }

  #afterLeaving(): void {
    this.#wake();
    if (this.#readers.size < 2) this.#batches.clear();
    if (this.#readers.size === 0) this.#options.onClosed?.();
    if (this.#readers.size > 0 || this.isOver || this.#broken !== null) return;
    if (this.#whenUnread === 'cancel') this.#endLeft(LEFT.client);
    if (this.#whenUnread !== 'keep') this.#stop();
  }

  #endLeft(reason: string): void {
    this.#isLeft = true;
    void this.#cancel({ reason, afterCalls: true });
  }

  async #cancel(how: { reason: string; afterCalls?: true }): Promise<boolean> {
    try {
      const { accepted } = await this.run.cancel({ by: RESPONSES, ...how });
      if (accepted) await this.run.settled();
      return accepted;
    } catch {
      return false;
    }
  }

  #break(error: unknown): void {
    this.#broken ??= { error };
    this.#options.onClosed?.();
    this.#stop();
    this.#wake();
  }

  readonly #close = (): void => {
    this.#break(this.#interruption(new ApiError('shutting-down', 'The server is shutting down.')));
    if (this.#whenUnread === 'cancel' && !this.isOver) this.#endLeft(LEFT.stopping);
  };

  #interruption(error: unknown): ApiError {
    return interruption(this.#options.whenUnread === 'cancel' ? null : this.id, error);
  }

  #stop(): void {
    this.#options.closing.removeEventListener('abort', this.#close);
    void this.#happenings.return?.(undefined);
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}

/** The events that come before a provider has begun to answer. */
const BEFORE_ANSWER: readonly AnswerEvent['type'][] = ['begun', 'list', 'usage'];

const FAILED = 'The server failed on this response. See its log for the cause.';

const LOOK_AGAIN_MS = 5_000;

/** For readers of a response that has not ended; of `error` only the code, as it may name files. */
function interruption(responseId: string | null, error: unknown): ApiError {
  const code = isPassing(error) || error instanceof ApiError ? error.code : 'internal';
  const rest =
    responseId === null
      ? 'The response ends with its connection: nothing of it continues.'
      : `The response has not ended: its run continues, here or in another process. Retrieve it later with GET /v1/responses/${responseId}. A repeated request starts another run.`;
  return new ApiError(code, `${reasonOf(code)} ${rest}`, { retryAfterMs: LOOK_AGAIN_MS });
}

function reasonOf(code: string): string {
  if (code === 'shutting-down') return 'The server is shutting down.';
  if (code === 'store-full') return 'The disk of the server is full.';
  if (code.startsWith('store-')) return 'The server cannot use its store now.';
  return code.startsWith('lease-') ? 'Another process has taken over the run.' : FAILED;
}

/** Whether another process can continue the run. */
function isPassing(error: unknown): error is EngineError {
  return error instanceof EngineError && /^(store|lease)-/.test(error.code);
}

export type AnyFeed = ResponseFeed<unknown, unknown>;

const MOST_SETTLED = 64;
const MOST_SETTLED_EVENTS = 50_000;

/** The feeds of responses that began here: those in progress and the last settled ones, for clients that reconnect. */
export class LiveResponses {
  readonly #feeds = new Map<string, AnyFeed>();
  /** Oldest first. */
  readonly #settled = new Set<AnyFeed>();
  /** Feeds of journals, by what is read, as long as they have readers. */
  readonly #replays = new Map<string, Promise<AnyFeed>>();
  readonly #closing = new AbortController();

  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** `isKept`: whether clients may come back to it once its run has settled. */
  add(feed: AnyFeed, settled: Promise<unknown>, { isKept }: { isKept: boolean }): void {
    this.assertOpen();
    this.#feeds.set(feed.id, feed);
    const keep = () => {
      this.#settled.add(feed);
      this.#trim();
    };
    // A run that this process cannot drive further is read from its journal.
    settled.then(isKept ? keep : () => this.#drop(feed), () => this.#drop(feed));
  }

  /** Those that read the same journal at the same time share a feed, which `open` opens: see `onClosed` of a feed. */
  async replay<Wire, Whole>(
    key: string,
    write: MakeWriter<Wire, Whole>,
    open: (onClosed: () => void) => Promise<ResponseFeed<Wire, Whole>>,
  ): Promise<LiveResponse<Wire, Whole>> {
    for (;;) {
      const replaying = this.#replays.get(key) ?? this.#beginReplay(key, open);
      const feed = await replaying;
      if (!feed.isWrittenBy(write)) return (await open(() => {})).attach();
      // Its other readers may have left meanwhile.
      if (this.#replays.get(key) === replaying) return feed.attach();
    }
  }

  #beginReplay(key: string, open: (onClosed: () => void) => Promise<AnyFeed>): Promise<AnyFeed> {
    const forget = () => {
      if (this.#replays.get(key) === replaying) this.#replays.delete(key);
    };
    const replaying = open(forget);
    this.#replays.set(key, replaying);
    replaying.catch(forget);
    return replaying;
  }

  find(responseId: string): AnyFeed | undefined {
    return this.#feeds.get(responseId);
  }

  remove(responseId: string): void {
    const feed = this.#feeds.get(responseId);
    if (feed !== undefined) this.#drop(feed);
  }

  /** Ends the readers of all feeds, and of others that listen to `closing`. No feed can be added afterwards. */
  close(): void {
    this.#closing.abort();
  }

  assertOpen(): void {
    if (this.closing.aborted)
      throw new ApiError('shutting-down', 'The server is shutting down. Retry later.');
  }

  #drop(feed: AnyFeed): void {
    if (this.#feeds.get(feed.id) === feed) this.#feeds.delete(feed.id);
    this.#settled.delete(feed);
    feed.release();
  }

  #trim(): void {
    let events = 0;
    for (const { size } of this.#settled) events += size;
    for (const feed of this.#settled) {
      if (this.#settled.size <= MOST_SETTLED && events <= MOST_SETTLED_EVENTS) return;
      events -= feed.size;
      this.#drop(feed);
    }
  }
}
