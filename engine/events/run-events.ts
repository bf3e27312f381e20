import type { Delta } from '../../protocol/effect.ts';
import type { JournalEntry, RunEvent } from '../../protocol/event.ts';

/** A journal entry's event with its seq, or a delta, which is not journaled. */
export type RunHappening = (RunEvent & { runId: string; seq: number }) | Delta;

export type TextDelta = Extract<
  Delta,
  { type: 'text.delta' | 'reasoning.delta' | 'call.delta' | 'answer.delta' }
>;

type AnswerDelta = Extract<TextDelta, { type: 'answer.delta' }>;

/** The current turn's text, with adjacent deltas of a type (or call) merged. `since`: the seq of the last entry before it. */
type PartialText = { number: number; since: number; parts: TextDelta[] };

type Refresh = { nap(): Promise<void>; refresh(): Promise<void> };

type Subscriber = {
  receive(happening: RunHappening): void;
  /** Called with the event of an entry instead of `receive`: for those that need no more, since entries are many. */
  glance?(event: RunEvent): void;
  wake(): void;
};

/**
 * Publishes a run's events to readers in this process: entries once they are durable, deltas as they arrive.
 *
 * W1 A reader gets every entry after its `after` exactly once, in order.
 * W2 The current turn's text is kept only here, until the turn is journaled or restarted. Late readers get the text so far.
 * W3 A reader that falls behind its `QueueLimit` reads the missed entries from the store, and misses deltas that are
 *    not text.
 */
export class RunEvents {
  readonly #runId: string;
  readonly #subscribers = new Set<Subscriber>();
  #refreshing: Promise<void> | null = null;
  #partialText: PartialText;
  /** Called when what readers share of the journal is out of date, or when the last reader has left. */
  dropShared = () => {};

  /** `seq` is the last entry that the process has read. */
  constructor(runId: string, seq = 0) {
    this.#runId = runId;
    this.#partialText = { number: 0, since: seq, parts: [] };
  }

  get partialText(): PartialText {
    const { parts, ...text } = this.#partialText;
    return { ...text, parts: parts.map(part => ({ ...part })) };
  }

  get readers(): number {
    return this.#subscribers.size;
  }

  publishEntry(entry: JournalEntry): void {
    if (entry.event.type === 'run.redacted') this.dropShared();
    if (endsText(entry.event)) this.#endText(entry.seq);
    let stamped: RunHappening | undefined;
    for (const subscriber of this.#subscribers) {
      if (subscriber.glance !== undefined) subscriber.glance(entry.event);
      else {
        stamped ??= stampEvent(entry, this.#runId);
        subscriber.receive(stamped);
      }
    }
  }

  readonly publishDelta = (delta: Delta): void => {
    if (endsText(delta)) this.#endText();
    const fresh = delta.type === 'answer.delta' ? this.#unknownPartOf(delta) : delta;
    if (fresh === null) return;
    if (isText(fresh)) this.#appendText(fresh);
    this.#publish(fresh);
  };

  /** Makes all readers check again whether the run is over. */
  wakeReaders(): void {
    for (const subscriber of this.#subscribers) subscriber.wake();
  }

  /** Reads other processes' entries after a pause, if there are still readers. Concurrent callers share one refresh. */
  refreshLater({ nap, refresh }: Refresh): Promise<void> {
    this.#refreshing ??= nap()
      .then(() => (this.#subscribers.size > 0 ? refresh() : undefined))
      .finally(() => {
        this.#refreshing = null;
      });
    return this.#refreshing;
  }

  subscribe(subscriber: Subscriber): () => void {
    this.#subscribers.add(subscriber);
    return () => {
      if (this.#subscribers.delete(subscriber) && this.#subscribers.size === 0) this.dropShared();
    };
  }

  #publish(happening: RunHappening): void {
    for (const subscriber of this.#subscribers) subscriber.receive(happening);
  }

  #endText(since = this.#partialText.since): void {
    this.#partialText = { number: this.#partialText.number + 1, since, parts: [] };
  }

  /** What of a piece readers do not have yet: several callers may relay the same answer. */
  #unknownPartOf(delta: AnswerDelta): TextDelta | null {
    const last = this.#partialText.parts.at(-1);
    if (last === undefined || !isSamePart(last, delta)) return delta;
    const known = last.text.length - delta.at;
    return restOf(delta, Math.max(0, known))[0] ?? null;
  }

  #appendText(delta: TextDelta): void {
    const { parts } = this.#partialText;
    const last = parts.at(-1);
    if (last !== undefined && isSamePart(last, delta)) last.text += delta.text;
    else parts.push({ ...delta });
  }
}

/** Whether the text before this event is now in the journal, or discarded. */
export function endsText({ type }: RunEvent | Delta): boolean {
  return (
    type === 'text.discarded' ||
    type === 'turn.completed' ||
    type === 'turn.failed' ||
    type === 'tool.settled' ||
    type === 'tool.suspended' ||
    type === 'result.received' ||
    type === 'run.claimed' ||
    type === 'run.cancelled'
  );
}

export function isText(happening: RunHappening): happening is TextDelta {
  const { type } = happening;
  return (
    type === 'text.delta' || type === 'reasoning.delta' || type === 'call.delta' || type === 'answer.delta'
  );
}

export function isSamePart(one: TextDelta, other: TextDelta): boolean {
  if (one.type === 'answer.delta')
    return other.type === one.type && one.callId === other.callId && one.source === other.source;
  if (other.type === 'answer.delta') return false;
  if (one.turn !== other.turn || one.attempt !== other.attempt) return false;
  if (one.type === 'call.delta') return other.type === 'call.delta' && one.index === other.index;
  if (other.type === 'call.delta' || one.type !== other.type) return false;
  return one.refusals === other.refusals && one.sealed?.length === other.sealed?.length;
}

/** How much a delta adds, in characters; the start of a call counts as one. */
export function sizeOf(delta: TextDelta): number {
  return delta.text.length + (isStart(delta) ? 1 : 0);
}

/** The rest of a part for a reader that has `known` of it: at most one delta. */
export function restOf(part: TextDelta, known: number): TextDelta[] {
  if (known >= sizeOf(part)) return [];
  if (part.type === 'answer.delta') return [{ ...part, at: part.at + known, text: part.text.slice(known) }];
  if (known === 0 || !isStart(part)) return [{ ...part, text: part.text.slice(known) }];
  const { name: _, callId: __, ...rest } = part;
  return [{ ...rest, text: part.text.slice(known - 1) }];
}

function isStart(delta: TextDelta): delta is Extract<TextDelta, { type: 'call.delta' }> {
  return delta.type === 'call.delta' && delta.name !== undefined;
}

/** The event of an entry as readers get it. */
export function stampEvent(
  { seq, event }: JournalEntry,
  runId: string,
): Extract<RunHappening, { seq: number }> {
  return { ...event, runId, seq };
}

/** How much a reader's queue holds: `most` is the sum of `sizeOf` over its events. */
export type QueueLimit = {
  most: number;
  sizeOf(happening: RunHappening): number;
  /** Called with the size of each event that a reader misses while it is behind. */
  onMissed?(size: number): void;
};

const NOTHING = { 'text.delta': 0, 'reasoning.delta': 0, 'call.delta': 0, 'answer.delta': 0 };

export const DEFAULT_LIMIT: QueueLimit = { most: 1_024, sizeOf: () => 1 };

export class ReaderQueue implements Subscriber {
  readonly #events: RunEvents;
  readonly #limit: QueueLimit;
  #queue: RunHappening[] = [];
  #size = 0;
  /** How much the reader has of which text, in characters. */
  #received = { number: -1, ...NOTHING };
  #unsubscribe = () => {};
  /** Whether the queue overflowed: the reader has to read the journal again. */
  isBehind = false;
  isClosed = false;
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
    this.isBehind = false;
    this.#unsubscribe();
    this.#unsubscribe = this.#events.subscribe(this);
    const { number, parts } = this.#events.partialText;
    if (this.#received.number !== number) this.#startText(number);
    const received = { ...this.#received };
    const missing = parts.flatMap(part => {
      const known = Math.min(received[part.type], sizeOf(part));
      received[part.type] -= known;
      return restOf(part, known);
    });
    for (const part of missing) this.#count(part);
    return missing;
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
    if (isText(happening)) this.#received[happening.type] += sizeOf(happening);
  }

  #startText(number: number): void {
    this.#received = { number, ...NOTHING };
  }
}
