import type { Host } from '../../engine/host.ts';
import { giveWay, readPage } from '../../engine/read-journal.ts';
import { messageOf } from '../../protocol/error.ts';
import type { Store } from '../../protocol/store.ts';
import { endFrame, type Frame, frameEntry, KEEP_ALIVE, OPENING, textFrame } from './frame.ts';
import type { Hold } from './held-runs.ts';
import type { FeedEnd } from './run-feed.ts';

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

/**
 * A run's events for one reader, as fast as it reads.
 *
 * S1 Every entry behind `after` is sent once, in order, whatever the reader's pace and whoever wrote it.
 * S2 A reader is either live, or behind: then nothing is kept for it, and it gets from the store what it missed.
 * S3 Going live it gets the text of the running turn so far; deltas then go on from there.
 * S4 Nothing is held before the first read, nor after the end: a reader that leaves frees everything, and the run goes on.
 */
export class EventStream {
  readonly #options: EventStreamOptions;
  #hold: Hold | null = null;
  #unsubscribe = () => {};
  #queue: string[] = [OPENING];
  #queued = 0;
  /** Of the last entry in the queue or sent, and of the last one sent. */
  #seq: number;
  #sentSeq: number;
  #isBehind = true;
  #isFirst = true;
  #missed = 0;
  #feedEnd: FeedEnd | null = null;
  #isOver = false;
  #isCancelled = false;
  #wake = () => {};

  constructor(options: EventStreamOptions) {
    this.#options = options;
    this.#seq = options.after;
    this.#sentSeq = options.after;
  }

  open(): ReadableStream<Uint8Array> {
    const encoder = new TextEncoder();
    return new ReadableStream(
      {
        pull: async controller => {
          const text = await this.#next();
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

  async #next(): Promise<string | null> {
    try {
      this.#missed = 0;
      for (;;) {
        if (this.#isOver) return null;
        if (this.#queue.length > 0) return this.#flush();
        const hold = this.#hold ?? (await this.#begin());
        if (this.#isOver) return null;
        if (this.#isBehind) await this.#catchUp(hold);
        else if (this.#feedEnd !== null) return await this.#finish(this.#feedEnd);
        else if (!(await this.#wait())) return KEEP_ALIVE;
      }
    } catch (error) {
      if (!this.#isOver)
        this.#options.log(`A stream of run ${this.#options.runId} ended: ${messageOf(error)}`);
      this.#close();
      return null;
    }
  }

  async #begin(): Promise<Hold> {
    const hold = await this.#options.hold();
    this.#hold = hold;
    if (this.#isOver) hold.release();
    else
      this.#unsubscribe = hold.feed.subscribe({
        take: frame => this.#take(frame),
        close: end => {
          this.#feedEnd = end;
          this.#wake();
        },
      });
    return hold;
  }

  /** One page from the store, whose frames are about as large as may wait; live once nothing is left that the feed has given already. */
  async #catchUp({ feed }: Hold): Promise<void> {
    const { store, runId, bounds } = this.#options;
    if (this.#seq > this.#options.after) await giveWay();
    for (const entry of await readPage(store, runId, this.#seq, { chars: bounds.waiting / 2 })) {
      if (this.#queued > bounds.waiting) break;
      this.#push(frameEntry(entry, runId));
    }
    if (feed.lastSeq > this.#seq || this.#isOver) return;
    this.#isBehind = false;
    const soFar = feed.textSoFar;
    if (soFar !== null && this.#isFirst) this.#queue.unshift(textFrame(soFar));
    else if (soFar !== null) this.#queue.push(textFrame(soFar));
    this.#isFirst = false;
  }

  #take(frame: Frame): void {
    if (this.#isBehind) return this.#miss(frame);
    if (frame.type === 'journal' && frame.seq <= this.#seq) return;
    if (this.#queued + frame.text.length > this.#options.bounds.waiting && this.#queue.length > 0)
      return this.#fallBehind(frame);
    this.#push(frame);
    this.#wake();
  }

  #push(frame: Frame): void {
    this.#queue.push(frame.text);
    this.#queued += frame.text.length;
    if (frame.type === 'journal') this.#seq = frame.seq;
  }

  #fallBehind(frame: Frame): void {
    this.#missed += this.#queued;
    this.#queue = [];
    this.#queued = 0;
    this.#seq = this.#sentSeq;
    this.#isBehind = true;
    this.#miss(frame);
  }

  #miss(frame: Frame): void {
    this.#missed += frame.text.length;
    if (this.#missed <= this.#options.bounds.missed) return;
    this.#close();
    this.#options.disconnect();
  }

  #flush(): string {
    const text = this.#queue.join('');
    this.#queue = [];
    this.#queued = 0;
    this.#sentSeq = this.#seq;
    return text;
  }

  async #finish(end: FeedEnd): Promise<string | null> {
    const record = end === 'ended' ? await this.#options.store.get(this.#options.runId) : undefined;
    this.#close();
    return record === undefined ? null : endFrame(record.status);
  }

  /** False when nothing came for so long that the connection must be kept alive. */
  #wait(): Promise<boolean> {
    const { host, bounds } = this.#options;
    return new Promise(resolve => {
      const cancel = host.setTimer(bounds.keepAliveMs, () => resolve(false), { keepAlive: false });
      this.#wake = () => {
        cancel();
        resolve(true);
      };
    });
  }

  #close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#queue = [];
    this.#unsubscribe();
    this.#hold?.release();
    this.#wake();
  }
}
