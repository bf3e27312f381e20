import type { Run } from '../../engine/run/run.ts';
import type { Delta } from '../../protocol/effect.ts';
import type { RunnerTurn } from './runner-turn.ts';

const NEVER = new Promise<never>(() => {});

/**
 * A turn while it comes. Iterating gives its deltas, those of discarded attempts too (`text.discarded` says
 * so); `turn()` is the whole of it. Nobody has to iterate: the runner reads on by itself.
 */
export class TurnStream implements AsyncIterable<Delta> {
  readonly #run: Run;
  readonly #after: number;
  readonly #completed: Promise<RunnerTurn | undefined>;

  constructor(run: Run, after: number, completed: Promise<RunnerTurn | undefined>) {
    this.#run = run;
    this.#after = after;
    this.#completed = completed;
  }

  /** The whole turn. Rejects when there is none: its last attempt failed, or it was the draft of an answer to come. */
  async turn(): Promise<RunnerTurn> {
    const turn = await this.#completed;
    if (turn === undefined) throw new Error('The turn gave no reply: run.settled() says why.');
    return turn;
  }

  /** The text as it comes. */
  async *text(): AsyncGenerator<string, void> {
    for await (const delta of this) if (delta.type === 'text.delta') yield delta.text;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Delta, void> {
    const happenings = this.#run.events({ after: this.#after, follow: true })[Symbol.asyncIterator]();
    const failed = this.#completed.then(
      turn => turn === undefined || NEVER,
      () => true,
    );
    try {
      for (;;) {
        const next = await Promise.race([happenings.next(), failed]);
        if (typeof next !== 'object' || next.done || next.value.type === 'turn.completed') return;
        if (!('seq' in next.value)) yield next.value;
      }
    } finally {
      void happenings.return?.();
    }
  }
}
