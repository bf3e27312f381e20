import type { Host } from '../../../engine/driver/host.ts';
import { nextReaderTurn } from '../../../engine/run/readers/reader-turns.ts';
import {
  type EventStream,
  encode,
  type Frame,
  frame,
  nameRun,
  OPENING,
  type Portion,
  withId,
} from './event-stream.ts';
import type { Subscription } from './run-changes.ts';

/** A source of frames. `read` resolves with `null` at its end. */
type Source = { read(): Promise<Portion | null>; close(): void };

/** A run's stream, and the `seq` of the last entry that the reader has. */
export type FollowedRun = { runId: string; after: number; stream: EventStream };

type MergedOptions = {
  runs: readonly FollowedRun[];
  /** Ids of requested runs that do not exist or that the caller may not see. */
  missing: readonly string[];
  changes: Subscription | null;
  host: Host;
  keepAliveMs: number;
  closing: AbortSignal;
};

/** Returns the id of an event: the position in every run. Run ids are escaped. */
function formatPlaces(places: ReadonlyMap<string, number>): string {
  return [...places].map(([runId, seq]) => `${encodeURIComponent(runId)}:${seq}`).join(',');
}

const KEEP_ALIVE = ': here\n\n';

/**
 * Merges several runs, and the changes of all runs, into one stream of server-sent events, at the reader's pace.
 *
 * M1 The id of an entry encodes the position in every run, `RUN:SEQ,RUN:SEQ`, so that a reader resumes all of them from
 *    it.
 * M2 A run that has ended is left out after its `end`; a run whose stream breaks ends the stream, so that its reader
 *    connects again. Without changes of all runs, the stream ends with the last run.
 */
export class MergedStream {
  readonly #options: MergedOptions;
  readonly #places = new Map<string, number>();
  readonly #ready: { source: Source; portion: Portion | null }[] = [];
  readonly #runOf = new Map<Source, FollowedRun>();
  #hasBegun = false;
  /** The number of sources that have not ended. */
  #open = 0;
  #wake = () => {};
  #isOver = false;
  #isCancelled = false;

  constructor(options: MergedOptions) {
    this.#options = options;
    for (const run of options.runs) {
      this.#places.set(run.runId, run.after);
      this.#runOf.set(run.stream, run);
    }
  }

  /** Returns the response body. Call it once. */
  open(): ReadableStream<Uint8Array> {
    const { missing, closing } = this.#options;
    const gone = missing.map(runId => frame('gone', { runId }).text);
    return new ReadableStream(
      {
        start: controller => {
          controller.enqueue(encode([OPENING, ...gone].join('')));
          closing.addEventListener('abort', this.#close, { once: true });
        },
        pull: async controller => {
          const text = await this.#read();
          if (text !== null) return controller.enqueue(encode(text));
          this.#close();
          if (!this.#isCancelled) controller.close();
        },
        cancel: () => {
          this.#isCancelled = true;
          this.#close();
        },
      },
      { highWaterMark: 0 },
    );
  }

  async #read(): Promise<string | null> {
    if (!this.#hasBegun) this.#begin();
    for (;;) {
      const first = this.#ready.shift();
      if (first === undefined) {
        if (this.#open === 0 || this.#isOver) return null;
        if (!(await this.#wait())) return KEEP_ALIVE;
        continue;
      }
      const { source, portion } = first;
      if (portion === null) {
        this.#open -= 1;
        if (!this.#hasEnded(source)) return null;
        continue;
      }
      this.#next(source);
      const { frames } = portion;
      // Its ids are those of this reader alone: a page is encoded in the reader's turn.
      if (frames.length > 1) await nextReaderTurn();
      if (this.#isOver) return null;
      return frames.map(one => this.#write(source, one)).join('');
    }
  }

  #begin(): void {
    const { runs, changes } = this.#options;
    this.#hasBegun = true;
    const sources: Source[] = runs.map(({ stream }) => stream);
    if (changes !== null) sources.push(changes);
    this.#open = sources.length;
    for (const source of sources) this.#next(source);
  }

  #next(source: Source): void {
    void source.read().then(portion => {
      this.#ready.push({ source, portion });
      this.#wake();
    });
  }

  #hasEnded(source: Source): boolean {
    return this.#runOf.get(source)?.stream.hasEnded === true;
  }

  #write(source: Source, one: Frame): string {
    const run = this.#runOf.get(source);
    if (run === undefined) return one.text;
    if (one.seq === undefined) return nameRun(one, run.runId).text;
    this.#places.set(run.runId, one.seq);
    return withId(one, formatPlaces(this.#places));
  }

  /** Waits until a source has frames. Returns false after `keepAliveMs`. */
  async #wait(): Promise<boolean> {
    const { host, keepAliveMs } = this.#options;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#wake = () => resolve(true);
    const cancel = host.setTimer(keepAliveMs, () => resolve(false), { keepAlive: false });
    return await promise.finally(() => cancel());
  }

  readonly #close = (): void => {
    if (this.#isOver) return;
    this.#isOver = true;
    const { runs, changes, closing } = this.#options;
    closing.removeEventListener('abort', this.#close);
    for (const { stream } of runs) stream.close();
    changes?.close();
    this.#wake();
  };
}
