import type { Delta } from '../../protocol/effect.ts';
import type { JournalEntry, RunEvent } from '../../protocol/event.ts';

/** A journal entry's event with its seq, or a delta, which is not journaled. */
export type RunHappening = (RunEvent & { runId: string; seq: number }) | Delta;

type TextDelta = Extract<Delta, { type: 'text.delta' | 'reasoning.delta' }>;

/** The text of the current turn; adjacent deltas of one type are merged. Each text has another `number`. */
type PartialText = { number: number; parts: readonly TextDelta[] };

type Subscriber = { receive(happening: RunHappening): void; wake(): void };

/**
 * Publishes a run's events to readers in this process: entries once they are durable, deltas as they arrive.
 *
 * W1 A reader gets every entry after its `after` exactly once, in order.
 * W2 The current turn's text is kept only here, until the turn is journaled or restarted. Late readers get what they lack.
 * W3 A reader that falls behind its `QueueLimit` reads the missed entries from the store, and misses deltas that are
 *    not text.
 */
export class RunEvents {
  readonly #runId: string;
  readonly #subscribers = new Set<Subscriber>();
  #refreshing: Promise<void> | null = null;
  #partialText: { number: number; parts: TextDelta[] } = { number: 0, parts: [] };

  constructor(runId: string) {
    this.#runId = runId;
  }

  /** A copy of the current turn's text. */
  get partialText(): PartialText {
    const { number, parts } = this.#partialText;
    return { number, parts: parts.map(part => ({ ...part })) };
  }

  /** Publishes a durable entry. */
  publishEntry(entry: JournalEntry): void {
    if (endsText(entry.event)) this.#endText();
    if (this.#subscribers.size > 0) this.#publish(stamp(entry, this.#runId));
  }

  /** Publishes a delta. */
  readonly publishDelta = (delta: Delta): void => {
    if (endsText(delta)) this.#endText();
    if (isText(delta)) this.#appendText(delta);
    this.#publish(delta);
  };

  /** Makes all readers check again whether the run is over. */
  wakeReaders(): void {
    for (const subscriber of this.#subscribers) subscriber.wake();
  }

  /** Reads other processes' entries after a pause. Concurrent callers share one refresh. */
  refreshLater({ nap, refresh }: EventSource): Promise<void> {
    this.#refreshing ??= nap()
      .then(refresh)
      .finally(() => {
        this.#refreshing = null;
      });
    return this.#refreshing;
  }

  /** Returns a function that unsubscribes. */
  subscribe(subscriber: Subscriber): () => void {
    this.#subscribers.add(subscriber);
    return () => this.#subscribers.delete(subscriber);
  }

  #publish(happening: RunHappening): void {
    for (const subscriber of this.#subscribers) subscriber.receive(happening);
  }

  #endText(): void {
    this.#partialText = { number: this.#partialText.number + 1, parts: [] };
  }

  #appendText({ type, turn, attempt, text }: TextDelta): void {
    const { parts } = this.#partialText;
    const last = parts.at(-1);
    if (last?.type === type && last.turn === turn && last.attempt === attempt) last.text += text;
    else parts.push({ type, turn, attempt, text });
  }
}

/** Whether the text before this event is now in the journal, or discarded. */
function endsText({ type }: RunEvent | Delta): boolean {
  return (
    type === 'text.discarded' ||
    type === 'turn.completed' ||
    type === 'turn.failed' ||
    type === 'run.claimed' ||
    type === 'run.cancelled'
  );
}

function isText(happening: RunHappening): happening is TextDelta {
  return happening.type === 'text.delta' || happening.type === 'reasoning.delta';
}

function stamp({ seq, event }: JournalEntry, runId: string): RunHappening {
  return { ...event, runId, seq };
}

/** What readers need of a run. */
export type EventSource = {
  runId: string;
  events: RunEvents;
  /** The entries after seq `after`, page by page, up to those that this process has read. */
  readPages(after: number): AsyncIterable<JournalEntry[]>;
  /** Whether more events are expected, as far as this process has read the journal. */
  standing(): 'running' | 'at-rest' | 'ended';
  /** The error that stopped driving in this process; `null` without one. */
  failure(): { error: unknown } | null;
  /** Reads and publishes the entries of other processes. */
  refresh(): Promise<void>;
  /** Waits for one polling interval. */
  nap(): Promise<void>;
};

/** How much a reader's queue holds: `most` is the sum of `sizeOf` over its events. */
type QueueLimit = {
  most: number;
  sizeOf(happening: RunHappening): number;
  /** Called with the size of each event that a reader misses while it is behind. */
  onMissed?(size: number): void;
};

const DEFAULT_LIMIT: QueueLimit = { most: 1_024, sizeOf: () => 1 };

type ReadOptions = {
  /** The seq after which to start; default 0. */
  after?: number;
  /** Reads until the run has ended; without it until the run settles. */
  follow?: boolean;
};

/** Options of `eventBatches`. */
export type BatchOptions = ReadOptions & {
  /** How much the reader's queue holds; by default 1,024 events. */
  room?: QueueLimit;
  /** Whether the first batch is the current turn's text, even if empty; by default the text follows the journal. */
  textFirst?: boolean;
};

/** The entries after `after`, then events as they happen. */
export function readEvents(source: EventSource, options: ReadOptions): AsyncGenerator<RunHappening> {
  const queue = new ReaderQueue(source.events, DEFAULT_LIMIT);
  return stoppingAtOnce(readEach(source, queue, options), queue);
}

/**
 * Like `readEvents`, in batches of everything available. What one network read brings is one batch: the deltas of a
 * provider's chunk arrive in the same turn of the event loop, one after the other.
 */
export function readBatches(
  source: EventSource,
  options: BatchOptions,
): AsyncGenerator<readonly RunHappening[]> {
  const queue = new ReaderQueue(source.events, options.room ?? DEFAULT_LIMIT);
  return stoppingAtOnce(readAll(source, queue, options, nextTurnOfLoop), queue);
}

function nextTurnOfLoop(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve));
}

/** The text of the run as readers see it: past turns from the journal, the current turn as it arrives. */
export function readText(source: EventSource, showText: (text: string) => string): AsyncGenerator<string> {
  const queue = new ReaderQueue(source.events, DEFAULT_LIMIT);
  return stoppingAtOnce(readTurns(source, queue, showText), queue);
}

/** Makes `return()` end a generator that is waiting: by default it would wait for the next event first. */
function stoppingAtOnce<T>(generator: AsyncGenerator<T>, queue: ReaderQueue): AsyncGenerator<T> {
  const stop = generator.return.bind(generator);
  generator.return = value => {
    queue.close();
    return stop(value);
  };
  return generator;
}

async function* readEach(
  source: EventSource,
  queue: ReaderQueue,
  options: ReadOptions,
): AsyncGenerator<RunHappening> {
  for await (const batch of readAll(source, queue, options)) yield* batch;
}

async function* readAll(
  source: EventSource,
  queue: ReaderQueue,
  { after = 0, follow = false, textFirst = false }: BatchOptions,
  gather?: () => Promise<void>,
): AsyncGenerator<readonly RunHappening[]> {
  const isOver = () => {
    const standing = source.standing();
    return standing === 'ended' || (standing === 'at-rest' && !follow);
  };
  let seq = after;
  let isTextFirst = textFirst;
  try {
    while (!queue.isClosed) {
      const text = queue.open();
      if (isTextFirst) yield text;
      for await (const page of source.readPages(seq)) {
        const { firstSeq } = queue;
        const missing = page.filter(entry => entry.seq < firstSeq);
        seq = missing.at(-1)?.seq ?? seq;
        if (missing.length > 0) yield missing.map(entry => stamp(entry, source.runId));
        if (missing.length < page.length) break;
      }
      if (!isTextFirst && text.length > 0) yield text;
      isTextFirst = false;
      await source.refresh();
      while (!queue.isBehind && !queue.isClosed) {
        const batch = queue.drain().filter(happening => !('seq' in happening) || happening.seq > seq);
        seq = batch.findLast(happening => 'seq' in happening)?.seq ?? seq;
        if (batch.length > 0) yield batch;
        if (!queue.isEmpty) continue;
        if (isOver()) {
          await source.refresh();
          if (queue.isEmpty && isOver()) return;
          continue;
        }
        const failure = follow ? null : source.failure();
        if (source.standing() === 'running' && failure !== null) throw failure.error;
        await queue.waitForMore(source.events.refreshLater(source));
        await gather?.();
      }
    }
  } finally {
    queue.close();
  }
}

async function* readTurns(
  source: EventSource,
  queue: ReaderQueue,
  showText: (text: string) => string,
): AsyncGenerator<string> {
  let shown = false;
  let streamed = 0;
  let completed = 0;
  for await (const event of readEach(source, queue, {})) {
    if (event.type === 'text.delta' && event.turn > completed) {
      streamed += event.text.length;
      yield event.text;
    }
    if (event.type === 'text.started') shown = true;
    if (event.type !== 'turn.completed' && event.type !== 'turn.failed') continue;
    if (event.type === 'turn.completed') completed += 1;
    const isIncomplete = event.type === 'turn.completed' && shown && (streamed === 0 || queue.hasMissed);
    const rest = isIncomplete ? showText(event.text).slice(streamed) : '';
    if (rest !== '') yield rest;
    shown = false;
    streamed = 0;
    queue.hasMissed = false;
  }
}

/** The events that a reader has not read yet. */
class ReaderQueue implements Subscriber {
  readonly #events: RunEvents;
  readonly #limit: QueueLimit;
  #queue: RunHappening[] = [];
  #size = 0;
  /** How much the reader has of which text, in characters. */
  #received = { number: -1, 'text.delta': 0, 'reasoning.delta': 0 };
  #unsubscribe = () => {};
  /** Whether the queue overflowed: the reader has to read the journal again. */
  isBehind = false;
  isClosed = false;
  /** Whether the reader may have missed deltas. */
  hasMissed = false;
  wake = () => {};

  constructor(events: RunEvents, limit: QueueLimit) {
    this.#events = events;
    this.#limit = limit;
  }

  get isEmpty(): boolean {
    return this.#queue.length === 0 && !this.isBehind;
  }

  /** The seq of the first entry in the queue, which has its place among the deltas. */
  get firstSeq(): number {
    return this.#queue.find(happening => 'seq' in happening)?.seq ?? Number.POSITIVE_INFINITY;
  }

  /** Subscribes, for the first time or again. Returns the part of the current text that the reader lacks. */
  open(): TextDelta[] {
    this.hasMissed ||= this.isBehind;
    this.isBehind = false;
    this.#unsubscribe();
    this.#unsubscribe = this.#events.subscribe(this);
    const { number, parts } = this.#events.partialText;
    if (this.#received.number !== number) this.#startText(number);
    const received = { ...this.#received };
    const missing = parts.map(part => {
      const known = Math.min(received[part.type], part.text.length);
      received[part.type] -= known;
      return { ...part, text: part.text.slice(known) };
    });
    for (const part of missing) this.#count(part);
    return missing.filter(({ text }) => text !== '');
  }

  receive(happening: RunHappening): void {
    const { most, sizeOf, onMissed } = this.#limit;
    if (this.isBehind) return onMissed?.(sizeOf(happening));
    this.#queue.push(happening);
    this.#size += sizeOf(happening);
    if (this.#size <= most || this.#queue.length === 1) return this.wake();
    this.isBehind = true;
    this.#queue = [];
    if (onMissed === undefined) this.#unsubscribe();
    onMissed?.(this.#size);
    this.#size = 0;
    this.wake();
  }

  drain(): RunHappening[] {
    const drained = this.#queue;
    this.#queue = [];
    this.#size = 0;
    for (const happening of drained) this.#count(happening);
    return drained;
  }

  async waitForMore(refreshed: Promise<void>): Promise<void> {
    const { promise: woken, resolve } = Promise.withResolvers<void>();
    this.wake = resolve;
    await Promise.race([woken, refreshed]);
    this.wake = () => {};
  }

  close(): void {
    this.isClosed = true;
    this.#queue = [];
    this.#unsubscribe();
    this.wake();
  }

  #count(happening: RunHappening): void {
    if (endsText(happening)) this.#startText(this.#received.number + 1);
    if (isText(happening)) this.#received[happening.type] += happening.text.length;
  }

  #startText(number: number): void {
    this.#received = { number, 'text.delta': 0, 'reasoning.delta': 0 };
  }
}
