import type { Host } from '../../engine/driver/host.ts';
import type { RunHappening } from '../../engine/run/run.ts';
import { messageOf } from '../../protocol/error.ts';
import type { Store } from '../../protocol/store.ts';
import type { Hold } from './run-registry.ts';

export type StreamBounds = {
  /** What waits for a reader at most, in characters; beyond it deltas are dropped and entries read again. */
  waiting: number;
  /** What may pass a reader by that takes nothing, in characters; beyond it the reader is disconnected. */
  missed: number;
  keepAliveMs: number;
};

export const STREAM_BOUNDS: StreamBounds = {
  waiting: 256 * 1024,
  missed: 16 * 1024 * 1024,
  keepAliveMs: 15_000,
};

export type EventStreamOptions = {
  runId: string;
  /** Entries up to this one are known to the reader. */
  after: number;
  store: Store;
  host: Host;
  bounds: StreamBounds;
  hold(): Promise<Hold>;
  /** Ends the connection of a reader that does not read. */
  disconnect(): void;
  log(line: string): void;
};

/** How soon a browser comes back, in ms; also the first thing that is sent. */
const OPENING = 'retry: 1000\n\n';
const KEEP_ALIVE = ': here\n\n';

/**
 * A run's events for one reader, framed, as fast as it reads; what waits for it, and what it has missed, the
 * engine keeps.
 *
 * S1 It gets the text of the running turn so far, then the journal, then what follows.
 * S2 One that takes nothing is disconnected once `missed` has passed it by.
 * S3 Nothing is held before the first read, nor after the end: a reader that leaves frees everything, and the run goes on.
 */
export class EventStream {
  readonly #options: EventStreamOptions;
  #hold: Hold | null = null;
  #batches: AsyncGenerator<readonly RunHappening[]> | null = null;
  #next: Promise<IteratorResult<readonly RunHappening[]>> | null = null;
  #frames: string[] = [OPENING];
  #isFirst = true;
  #missed = 0;
  #isOver = false;
  #isCancelled = false;

  constructor(options: EventStreamOptions) {
    this.#options = options;
  }

  open(): ReadableStream<Uint8Array> {
    const encoder = new TextEncoder();
    return new ReadableStream(
      {
        pull: async controller => {
          const text = await this.#read();
          if (text !== null) controller.enqueue(encoder.encode(text));
          else if (!this.#isCancelled) controller.close();
        },
        cancel: () => {
          this.#isCancelled = true;
          this.#close();
        },
      },
      { highWaterMark: 0 },
    );
  }

  /** What to send next; `null` at the end. */
  async #read(): Promise<string | null> {
    this.#missed = 0;
    try {
      while (this.#frames.length === 0) {
        this.#batches ??= await this.#begin();
        if (this.#isOver) return null;
        this.#next ??= this.#batches.next();
        const step = await this.#withinTime(this.#next);
        if (step === null) return KEEP_ALIVE;
        this.#next = null;
        if (step.done === true) return await this.#finish();
        this.#frames = this.#isFirst ? frameSoFar(step.value) : step.value.map(frameOf);
        this.#isFirst = false;
      }
      return this.#isOver ? null : this.#takeFrames();
    } catch (error) {
      if (!this.#isOver)
        this.#options.log(`A stream of run ${this.#options.runId} ended: ${messageOf(error)}`);
      this.#close();
      return null;
    }
  }

  async #begin(): Promise<AsyncGenerator<readonly RunHappening[]>> {
    const { hold, after, bounds } = this.#options;
    const held = await hold();
    this.#hold = held;
    if (this.#isOver) held.release();
    held.closing.addEventListener('abort', this.#close, { once: true });
    const onMissed = (chars: number) => this.#miss(chars);
    const room = { most: bounds.waiting, sizeOf: (one: RunHappening) => frameOf(one).length, onMissed };
    return held.run.eventBatches({ after, follow: true, textFirst: true, room });
  }

  /** As many as may wait, in one write; one at least. */
  #takeFrames(): string {
    let chars = 0;
    const end = this.#frames.findIndex((frame, index) => {
      chars += frame.length;
      return index > 0 && chars > this.#options.bounds.waiting;
    });
    return this.#frames.splice(0, end === -1 ? this.#frames.length : end).join('');
  }

  #miss(chars: number): void {
    this.#missed += chars;
    if (this.#missed <= this.#options.bounds.missed) return;
    this.#close();
    this.#options.disconnect();
  }

  async #finish(): Promise<string | null> {
    const record = this.#isOver ? undefined : await this.#options.store.get(this.#options.runId);
    this.#close();
    return record === undefined ? null : frame('end', { status: record.status });
  }

  /** `null` when nothing came for so long that the connection must be kept alive. */
  async #withinTime<Value>(value: Promise<Value>): Promise<Value | null> {
    const { host, bounds } = this.#options;
    let cancel = () => {};
    const late = new Promise<null>(resolve => {
      cancel = host.setTimer(bounds.keepAliveMs, () => resolve(null), { keepAlive: false });
    });
    return await Promise.race([value, late]).finally(() => cancel());
  }

  readonly #close = (): void => {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#frames = [];
    this.#hold?.closing.removeEventListener('abort', this.#close);
    this.#hold?.release();
    void this.#batches?.return(undefined);
  };
}

const frames = new WeakMap<RunHappening, string>();

/** One server-sent event as it goes over the wire, framed once for all. Only what is journaled has an id to continue behind. */
function frameOf(happening: RunHappening): string {
  const known = frames.get(happening);
  if (known !== undefined) return known;
  const isEntry = 'seq' in happening;
  const made = isEntry ? `id: ${happening.seq}\n${frame('journal', happening)}` : frame('delta', happening);
  frames.set(happening, made);
  return made;
}

/** All the text so far is one event, in place of what the reader may have of it; the reasoning comes behind it. */
function frameSoFar(said: readonly RunHappening[]): string[] {
  const [first] = said;
  if (first === undefined || !('turn' in first)) return [];
  const { turn, attempt } = first;
  const text = said.map(part => (part.type === 'text.delta' ? part.text : '')).join('');
  const others = said.filter(part => part.type !== 'text.delta');
  return [frame('text', { turn, attempt, text }), ...others.map(frameOf)];
}

function frame(event: string, data: object): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}
