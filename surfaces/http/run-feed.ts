import type { Run, RunHappening } from '../../engine/run.ts';
import { type Frame, frameHappening, type TextSoFar } from './frame.ts';

/** Why a feed gives no more: the run has ended, nobody wants it any more, or the store failed. */
export type FeedEnd = 'ended' | 'stopped' | 'failed';

export interface FeedListener {
  take(frame: Frame): void;
  close(end: FeedEnd): void;
}

/**
 * What happens in a run, once for all who watch it here.
 *
 * F1 Entries come in order, each once; `lastSeq` is the last one given.
 * F2 Nothing is kept but the text of the running turn: who is slow reads entries from the store.
 */
export class RunFeed {
  readonly #listeners = new Set<FeedListener>();
  readonly #happenings: AsyncIterator<RunHappening>;
  #lastSeq: number;
  #soFar: { turn: number; attempt: number; chunks: string[] } | null = null;
  #end: FeedEnd | null = null;

  /** Begins behind `after`. `onError` is told what the store does. */
  constructor(run: Run, after: number, onError: (error: unknown) => void) {
    this.#lastSeq = after;
    this.#happenings = run.events({ after, follow: true })[Symbol.asyncIterator]();
    void this.#pump(onError);
  }

  get lastSeq(): number {
    return this.#lastSeq;
  }

  get end(): FeedEnd | null {
    return this.#end;
  }

  get textSoFar(): TextSoFar | null {
    if (this.#soFar === null) return null;
    const { turn, attempt, chunks } = this.#soFar;
    return { turn, attempt, text: chunks.join('') };
  }

  subscribe(listener: FeedListener): () => void {
    if (this.#end === null) this.#listeners.add(listener);
    else listener.close(this.#end);
    return () => this.#listeners.delete(listener);
  }

  stop(): void {
    this.#finish('stopped');
    void this.#happenings.return?.();
  }

  async #pump(onError: (error: unknown) => void): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await this.#happenings.next();
        if (this.#end !== null) return;
        if (done === true) return this.#finish('ended');
        this.#pass(value);
      }
    } catch (error) {
      if (this.#end === null) onError(error);
      this.#finish('failed');
    }
  }

  #pass(happening: RunHappening): void {
    this.#follow(happening);
    const frame = frameHappening(happening);
    for (const listener of this.#listeners) listener.take(frame);
  }

  #follow(happening: RunHappening): void {
    if ('seq' in happening) this.#lastSeq = happening.seq;
    switch (happening.type) {
      case 'text.delta': {
        const { turn, attempt, text } = happening;
        if (this.#soFar?.turn !== turn || this.#soFar.attempt !== attempt)
          this.#soFar = { turn, attempt, chunks: [] };
        this.#soFar.chunks.push(text);
        break;
      }
      case 'text.discarded':
      case 'turn.completed':
      case 'turn.failed':
      case 'run.claimed':
      case 'run.cancelled':
        this.#soFar = null;
        break;
      default:
    }
  }

  #finish(end: FeedEnd): void {
    if (this.#end !== null) return;
    this.#end = end;
    for (const listener of this.#listeners) listener.close(end);
    this.#listeners.clear();
  }
}
