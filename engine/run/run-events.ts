import type { Delta } from '../../protocol/effect.ts';
import type { JournalEntry, RunEvent } from '../../protocol/event.ts';

/** A journal entry's event with its seq, or a delta, which is not journaled. */
export type RunHappening = (RunEvent & { runId: string; seq: number }) | Delta;

type TextDelta = Extract<Delta, { type: 'text.delta' | 'reasoning.delta' }>;

/** The text of the current turn; adjacent deltas of one type are merged. Each text has another `number`. */
type PartialText = { number: number; parts: readonly TextDelta[] };

/** How a reader waits for entries of other processes. */
type Refresh = { nap(): Promise<void>; refresh(): Promise<void> };

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
  refreshLater({ nap, refresh }: Refresh): Promise<void> {
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

/** The event of an entry as readers get it. */
export function stamp({ seq, event }: JournalEntry, runId: string): RunHappening {
  return { ...event, runId, seq };
}

/** How much a reader's queue holds: `most` is the sum of `sizeOf` over its events. */
export type QueueLimit = {
  most: number;
  sizeOf(happening: RunHappening): number;
  /** Called with the size of each event that a reader misses while it is behind. */
  onMissed?(size: number): void;
};

/** 1,024 events. */
export const DEFAULT_LIMIT: QueueLimit = { most: 1_024, sizeOf: () => 1 };

/** The events that a reader has not read yet. */
export class ReaderQueue implements Subscriber {
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
