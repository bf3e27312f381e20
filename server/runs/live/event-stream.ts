import type { Host } from '../../../engine/driver/host.ts';
import { nextReaderTurn } from '../../../engine/run/readers/reader-turns.ts';
import { jsonOf } from '../../../engine/run/readers/shared-pages.ts';
import type { RunHappening } from '../../../engine/run/run.ts';
import { messageOf } from '../../../protocol/error.ts';
import type { Store } from '../../../protocol/store.ts';
import type { Hold } from '../run-registry.ts';

export type StreamBounds = {
  /** The most characters queued for a reader; beyond that, deltas are dropped and entries are re-read from the store. */
  waiting: number;
  /** The most characters that a stalled reader may miss before it is disconnected. */
  missed: number;
  keepAliveMs: number;
};

export const STREAM_BOUNDS: StreamBounds = {
  waiting: 256 * 1024,
  missed: 16 * 1024 * 1024,
  keepAliveMs: 15_000,
};

type EventStreamOptions = {
  runId: string;
  /** The `seq` of the last entry that the reader has. */
  after: number;
  store: Store;
  host: Host;
  bounds: StreamBounds;
  hold(): Promise<Hold>;
  /** Closes the connection of a stalled reader. */
  disconnect(): void;
  log(line: string): void;
};

const encoder = new TextEncoder();

/** Encodes the text of a stream. */
export function encode(text: string): Uint8Array {
  return encoder.encode(text);
}

/** The first bytes of every stream: how long a browser waits before it reconnects, in ms. */
export const OPENING = 'retry: 1000\n\n';

/** A server-sent event without its id. `seq`: the seq of the entry in it. A reader can resume only after entries. */
export type Frame = { text: string; seq?: number };

/** Frames that are sent together. Their bytes are encoded once for all readers. */
export class Portion {
  readonly frames: readonly Frame[];
  #bytes: Uint8Array | null = null;

  constructor(frames: readonly Frame[]) {
    this.frames = frames;
  }

  /** The frames of a stream of one run, each with the `seq` of its entry as its id. */
  get bytes(): Uint8Array {
    this.#bytes ??= encode(this.frames.map(one => withId(one, one.seq)).join(''));
    return this.#bytes;
  }
}

const KEEP_ALIVE = new Portion([{ text: ': here\n\n' }]);

/**
 * A run's events for one reader as server-sent events, at the reader's pace. The engine queues events for the reader
 * and counts what it missed.
 *
 * S1 The reader gets the text of the running turn so far, then the journal, then new events.
 * S2 A stalled reader is disconnected after it missed more than `missed` characters.
 * S3 The run is held only between the first read and the end. When a reader disconnects, all resources are freed; the
 *    run continues.
 */
export class EventStream {
  readonly #options: EventStreamOptions;
  #hold: Hold | null = null;
  #batches: AsyncGenerator<readonly RunHappening[]> | null = null;
  #next: Promise<IteratorResult<readonly RunHappening[]>> | null = null;
  /** What is left of the last batch. */
  #portions: readonly Portion[] = [];
  #isFirst = true;
  #missed = 0;
  #isOver = false;
  #isCancelled = false;
  #hasEnded = false;

  constructor(options: EventStreamOptions) {
    this.#options = options;
  }

  /** Returns the response body. Call it once, and do not call `read`. */
  open(): ReadableStream<Uint8Array> {
    return new ReadableStream(
      {
        start: controller => controller.enqueue(encode(OPENING)),
        pull: async controller => {
          const read = await this.read();
          if (read !== null) controller.enqueue(read.bytes);
          else if (!this.#isCancelled) controller.close();
        },
        cancel: () => {
          this.#isCancelled = true;
          this.close();
        },
      },
      { highWaterMark: 0 },
    );
  }

  /** Whether `end` was read: the run has ended, and the reader has all its events. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** The next frames to send; `null` at the end. */
  async read(): Promise<Portion | null> {
    const { waiting } = this.#options.bounds;
    this.#missed = 0;
    try {
      if (this.#portions.length > 0) await nextReaderTurn();
      while (this.#portions.length === 0) {
        this.#batches ??= await this.#begin();
        if (this.#isOver) return null;
        this.#next ??= this.#batches.next();
        const step = await this.#withinTime(this.#next);
        if (step === null) return KEEP_ALIVE;
        this.#next = null;
        if (step.done === true) return await this.#finish();
        this.#portions = this.#isFirst
          ? divide(frameSoFar(step.value), waiting)
          : this.#portionsOf(step.value);
        this.#isFirst = false;
      }
      const [first = null, ...rest] = this.#portions;
      this.#portions = rest;
      return this.#isOver ? null : first;
    } catch (error) {
      if (!this.#isOver)
        this.#options.log(`An event stream of run ${this.#options.runId} failed: ${messageOf(error)}`);
      this.close();
      return null;
    }
  }

  async #begin(): Promise<AsyncGenerator<readonly RunHappening[]>> {
    const { hold, after, bounds } = this.#options;
    const held = await hold();
    this.#hold = held;
    if (this.#isOver) held.release();
    held.closing.addEventListener('abort', this.close, { once: true });
    const onMissed = (chars: number) => this.#miss(chars);
    const sizeOf = (one: RunHappening) => frameOf(one).text.length;
    const room = { most: bounds.waiting, sizeOf, onMissed };
    return held.run.eventBatches({ after, follow: true, textFirst: true, room });
  }

  /** The frames of a batch, divided for all readers that get it. */
  #portionsOf(batch: readonly RunHappening[]): readonly Portion[] {
    const [first] = batch;
    const shared = batch.length === 1 && first !== undefined ? first : batch;
    const known = portions.get(shared);
    if (known !== undefined) return known;
    const made = divide(batch.map(frameOf), this.#options.bounds.waiting);
    portions.set(shared, made);
    return made;
  }

  #miss(chars: number): void {
    this.#missed += chars;
    if (this.#missed <= this.#options.bounds.missed) return;
    this.close();
    this.#options.disconnect();
  }

  async #finish(): Promise<Portion | null> {
    const { runId, store } = this.#options;
    const record = this.#isOver ? undefined : await store.get(runId);
    this.close();
    this.#hasEnded = record !== undefined;
    return record === undefined ? null : new Portion([frame('end', { status: record.status })]);
  }

  /** Resolves with `null` after `keepAliveMs` without a value. */
  async #withinTime<Value>(value: Promise<Value>): Promise<Value | null> {
    const { host, bounds } = this.#options;
    let cancel = () => {};
    const timeout = new Promise<null>(resolve => {
      cancel = host.setTimer(bounds.keepAliveMs, () => resolve(null), { keepAlive: false });
    });
    return await Promise.race([value, timeout]).finally(() => cancel());
  }

  /** Frees all resources. `read` then returns `null`. */
  readonly close = (): void => {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#portions = [];
    this.#hold?.closing.removeEventListener('abort', this.close);
    this.#hold?.release();
    void this.#batches?.return(undefined);
  };
}

const frames = new WeakMap<RunHappening, Frame>();

/** By batch; by its event if it has one. Readers of a run get the same events, and the same pages of its journal. */
const portions = new WeakMap<RunHappening | readonly RunHappening[], readonly Portion[]>();

/** Divides frames into portions of at most `most` characters, or of one frame. */
function divide(all: readonly Frame[], most: number): Portion[] {
  const divided: Portion[] = [];
  let part: Frame[] = [];
  let chars = 0;
  for (const one of all) {
    chars += one.text.length;
    if (part.length > 0 && chars > most) {
      divided.push(new Portion(part));
      part = [];
      chars = one.text.length;
    }
    part.push(one);
  }
  return part.length === 0 ? divided : [...divided, new Portion(part)];
}

/** Returns one server-sent event, cached for all readers. */
function frameOf(happening: RunHappening): Frame {
  const known = frames.get(happening);
  if (known !== undefined) return known;
  const isEntry = 'seq' in happening;
  const text = write(isEntry ? 'journal' : 'delta', jsonOf(happening));
  const made = isEntry ? { text, seq: happening.seq } : { text };
  frames.set(happening, made);
  return made;
}

/**
 * Returns one `text` event with the text of the turn so far, which replaces the text that the reader has; then the
 * reasoning.
 */
function frameSoFar(deltas: readonly RunHappening[]): Frame[] {
  const [first] = deltas;
  if (first === undefined || !('attempt' in first) || !('turn' in first)) return [];
  const { turn, attempt } = first;
  const text = deltas.map(part => (part.type === 'text.delta' ? part.text : '')).join('');
  const others = deltas.filter(part => part.type !== 'text.delta');
  return [frame('text', { turn, attempt, text }), ...others.map(frameOf)];
}

/** Makes a frame. */
export function frame(event: string, data: object): Frame {
  return { text: write(event, JSON.stringify(data)) };
}

/** JSON has no raw line breaks, so the data cannot end the event. */
function write(event: string, json: string): string {
  return `event: ${event}\ndata: ${json}\n\n`;
}

/** Adds the run's id to a frame's data, for a stream of several runs. */
export function nameRun({ text, ...rest }: Frame, runId: string): Frame {
  return { ...rest, text: text.replace('\ndata: {', () => `\ndata: {"runId":${JSON.stringify(runId)},`) };
}

/** Returns a frame as text, with an id if a reader can resume after it. */
export function withId({ text, seq }: Frame, id: string | number | undefined): string {
  return seq === undefined || id === undefined ? text : `id: ${id}\n${text}`;
}
