import type { Delta } from '../../protocol/effect.ts';
import type { JournalEntry, RunEvent } from '../../protocol/event.ts';

/** What is journaled, with its place, and what only passes by. */
export type RunHappening = (RunEvent & { runId: string; seq: number }) | Delta;

type CommandOptions = Extract<Delta, { type: 'text.delta' | 'reasoning.delta' }>;

/** What a turn said so far: neighbouring deltas of one type are one. `number` is another for every text. */
export type SaidSoFar = { number: number; said: readonly CommandOptions[] };

export type Subscriber = {
  take(happening: RunHappening): void;
  /** Driving began or ended here: have a look. */
  wake(): void;
};

/**
 * What happens in a run, for whoever reads it in this process: entries as they become durable, deltas as they come.
 *
 * W1 A reader gets every entry behind its `after` once, in order.
 * W2 The text so far is kept here alone, until its turn is journaled or begins anew. A reader that comes late, or
 *    comes back, gets of it what it has not, then what follows.
 * W3 So much waits for a reader as its `Room` says. One that falls further behind gets the entries it missed from
 *    the store; deltas other than text are lost to it.
 */
export class RunEvents {
  readonly #runId: string;
  readonly #subscribers = new Set<Subscriber>();
  #refreshing: Promise<void> | null = null;
  #soFar: { number: number; said: CommandOptions[] } = { number: 0, said: [] };

  constructor(runId: string) {
    this.#runId = runId;
  }

  get soFar(): SaidSoFar {
    const { number, said } = this.#soFar;
    return { number, said: said.map(part => ({ ...part })) };
  }

  publishEntry(entry: JournalEntry): void {
    if (endsText(entry.event)) this.#endText();
    if (this.#subscribers.size > 0) this.#tell(stamp(entry, this.#runId));
  }

  readonly publishDelta = (delta: Delta): void => {
    if (endsText(delta)) this.#endText();
    if (isSaid(delta)) this.#remember(delta);
    this.#tell(delta);
  };

  nudge(): void {
    for (const subscriber of this.#subscribers) subscriber.wake();
  }

  /** Looks after a while, once for all who wait. */
  refreshLater({ nap, refresh }: EventSource): Promise<void> {
    this.#refreshing ??= nap()
      .then(refresh)
      .finally(() => {
        this.#refreshing = null;
      });
    return this.#refreshing;
  }

  subscribe(subscriber: Subscriber): () => void {
    this.#subscribers.add(subscriber);
    return () => this.#subscribers.delete(subscriber);
  }

  #tell(happening: RunHappening): void {
    for (const subscriber of this.#subscribers) subscriber.take(happening);
  }

  #endText(): void {
    this.#soFar = { number: this.#soFar.number + 1, said: [] };
  }

  #remember({ type, turn, attempt, text }: CommandOptions): void {
    const { said } = this.#soFar;
    const last = said.at(-1);
    if (last?.type === type && last.turn === turn && last.attempt === attempt) last.text += text;
    else said.push({ type, turn, attempt, text });
  }
}

/** What was said before this is in the journal, or counts no more. */
function endsText({ type }: RunEvent | Delta): boolean {
  return (
    type === 'text.discarded' ||
    type === 'turn.completed' ||
    type === 'turn.failed' ||
    type === 'run.claimed' ||
    type === 'run.cancelled'
  );
}

function isSaid(happening: RunHappening): happening is CommandOptions {
  return happening.type === 'text.delta' || happening.type === 'reasoning.delta';
}

function stamp({ seq, event }: JournalEntry, runId: string): RunHappening {
  return { ...event, runId, seq };
}

/** A run, for its readers. */
export type EventSource = {
  runId: string;
  events: RunEvents;
  readPages(after: number): AsyncIterable<JournalEntry[]>;
  /** Whether there is more to come, as far as is known here. */
  standing(): 'running' | 'at-rest' | 'ended';
  /** Why nobody drives here any more, if that is so. */
  trouble(): { error: unknown } | null;
  /** Publishes what others have written. */
  refresh(): Promise<void>;
  /** How long those who wait do before they look again. */
  nap(): Promise<void>;
};

/** How much may wait for a reader. */
export type Room = {
  most: number;
  sizeOf(happening: RunHappening): number;
  /** Told of what passes by while the reader is behind. */
  onMissed?(size: number): void;
};

const ROOM: Room = { most: 1_024, sizeOf: () => 1 };

export type ReadOptions = {
  after?: number;
  /** To the run's end; without it until it settles. */
  follow?: boolean;
};

export type BatchOptions = ReadOptions & {
  room: Room;
  /** The first batch is what the turn said so far, perhaps nothing; else that comes behind the journal. */
  textFirst: boolean;
};

/** The journal behind `after`, then what happens as it does. */
export function readEvents(source: EventSource, options: ReadOptions): AsyncGenerator<RunHappening> {
  const waiting = new Waiting(source.events, ROOM);
  return leavingAtOnce(readEach(source, waiting, options), waiting);
}

/** The same, as much at a time as there is. */
export function readBatches(
  source: EventSource,
  options: BatchOptions,
): AsyncGenerator<readonly RunHappening[]> {
  const waiting = new Waiting(source.events, options.room);
  return leavingAtOnce(readOn(source, waiting, options), waiting);
}

/** The text of the run as readers see it: of past turns from the journal, of the current one as it comes. */
export function readText(source: EventSource, showText: (text: string) => string): AsyncGenerator<string> {
  const waiting = new Waiting(source.events, ROOM);
  return leavingAtOnce(readTurns(source, waiting, showText), waiting);
}

/** A generator that waits goes on until it has something to give: one that is left does not. */
function leavingAtOnce<T>(generator: AsyncGenerator<T>, waiting: Waiting): AsyncGenerator<T> {
  const leave = generator.return.bind(generator);
  generator.return = value => {
    waiting.end();
    return leave(value);
  };
  return generator;
}

async function* readEach(
  source: EventSource,
  waiting: Waiting,
  options: ReadOptions,
): AsyncGenerator<RunHappening> {
  for await (const batch of readOn(source, waiting, options)) yield* batch;
}

async function* readOn(
  source: EventSource,
  waiting: Waiting,
  { after = 0, follow = false, textFirst = false }: Partial<BatchOptions>,
): AsyncGenerator<readonly RunHappening[]> {
  const isOver = () => {
    const standing = source.standing();
    return standing === 'ended' || (standing === 'at-rest' && !follow);
  };
  let seq = after;
  let isTextFirst = textFirst;
  try {
    while (!waiting.isLeft) {
      const lacking = waiting.begin();
      if (isTextFirst) yield lacking;
      for await (const page of source.readPages(seq)) {
        const { firstSeq } = waiting;
        const missing = page.filter(entry => entry.seq < firstSeq);
        seq = missing.at(-1)?.seq ?? seq;
        if (missing.length > 0) yield missing.map(entry => stamp(entry, source.runId));
        if (missing.length < page.length) break;
      }
      if (!isTextFirst && lacking.length > 0) yield lacking;
      isTextFirst = false;
      await source.refresh();
      while (!waiting.isBehind && !waiting.isLeft) {
        const batch = waiting.drain().filter(happening => !('seq' in happening) || happening.seq > seq);
        seq = batch.findLast(happening => 'seq' in happening)?.seq ?? seq;
        if (batch.length > 0) yield batch;
        if (!waiting.isEmpty) continue;
        if (isOver()) {
          await source.refresh();
          if (waiting.isEmpty && isOver()) return;
          continue;
        }
        const trouble = follow ? null : source.trouble();
        if (source.standing() === 'running' && trouble !== null) throw trouble.error;
        await waiting.forMore(source.events.refreshLater(source));
      }
    }
  } finally {
    waiting.end();
  }
}

async function* readTurns(
  source: EventSource,
  waiting: Waiting,
  showText: (text: string) => string,
): AsyncGenerator<string> {
  let shown = false;
  let streamed = 0;
  let completed = 0;
  for await (const event of readEach(source, waiting, {})) {
    if (event.type === 'text.delta' && event.turn > completed) {
      streamed += event.text.length;
      yield event.text;
    }
    if (event.type === 'text.started') shown = true;
    if (event.type !== 'turn.completed' && event.type !== 'turn.failed') continue;
    if (event.type === 'turn.completed') completed += 1;
    const isDue = event.type === 'turn.completed' && shown && (streamed === 0 || waiting.hasLost);
    const rest = isDue ? showText(event.text).slice(streamed) : '';
    if (rest !== '') yield rest;
    shown = false;
    streamed = 0;
    waiting.hasLost = false;
  }
}

/** What a reader has not taken yet. */
class Waiting implements Subscriber {
  readonly #events: RunEvents;
  readonly #room: Room;
  #queue: RunHappening[] = [];
  #size = 0;
  /** Of which text the reader has how much, in characters. */
  #has = { number: -1, 'text.delta': 0, 'reasoning.delta': 0 };
  #unsubscribe = () => {};
  isBehind = false;
  /** Nobody reads any more. */
  isLeft = false;
  /** Whether deltas were lost to the reader. */
  hasLost = false;
  wake = () => {};

  constructor(events: RunEvents, room: Room) {
    this.#events = events;
    this.#room = room;
  }

  get isEmpty(): boolean {
    return this.#queue.length === 0 && !this.isBehind;
  }

  /** Of the first entry that waits: it comes in its place among the deltas. */
  get firstSeq(): number {
    const first = this.#queue.find(happening => 'seq' in happening);
    return first?.seq ?? Number.POSITIVE_INFINITY;
  }

  /** Listens, at first or anew. Gives what the reader lacks of the text so far. */
  begin(): CommandOptions[] {
    this.hasLost ||= this.isBehind;
    this.isBehind = false;
    this.#unsubscribe();
    this.#unsubscribe = this.#events.subscribe(this);
    const { number, said } = this.#events.soFar;
    if (this.#has.number !== number) this.#hasNothingOf(number);
    const left = { ...this.#has };
    const lacking = said.map(part => {
      const known = Math.min(left[part.type], part.text.length);
      left[part.type] -= known;
      return { ...part, text: part.text.slice(known) };
    });
    for (const part of lacking) this.#note(part);
    return lacking.filter(({ text }) => text !== '');
  }

  take(happening: RunHappening): void {
    const { most, sizeOf, onMissed } = this.#room;
    const size = sizeOf(happening);
    if (this.isBehind) return onMissed?.(size);
    this.#queue.push(happening);
    this.#size += size;
    if (this.#size <= most || this.#queue.length === 1) return this.wake();
    this.isBehind = true;
    this.#queue = [];
    if (onMissed === undefined) this.#unsubscribe();
    onMissed?.(this.#size);
    this.#size = 0;
    this.wake();
  }

  drain(): RunHappening[] {
    const taken = this.#queue;
    this.#queue = [];
    this.#size = 0;
    for (const happening of taken) this.#note(happening);
    return taken;
  }

  async forMore(later: Promise<void>): Promise<void> {
    const told = new Promise<void>(resolve => {
      this.wake = resolve;
    });
    await Promise.race([told, later]);
    this.wake = () => {};
  }

  end(): void {
    this.isLeft = true;
    this.#queue = [];
    this.#unsubscribe();
    this.wake();
  }

  #note(happening: RunHappening): void {
    if (endsText(happening)) this.#hasNothingOf(this.#has.number + 1);
    if (isSaid(happening)) this.#has[happening.type] += happening.text.length;
  }

  #hasNothingOf(number: number): void {
    this.#has = { number, 'text.delta': 0, 'reasoning.delta': 0 };
  }
}
