import type { Run } from '../../engine/run.ts';
import type { Delta } from '../../protocol/effect.ts';
import type { RunnerTurn } from './runner-turn.ts';

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

  /** The whole turn. Rejects when the run ended without one, such as by an error that is not retried. */
  async turn(): Promise<RunnerTurn> {
    const turn = await this.#completed;
    if (turn === undefined) throw new Error('The turn failed, and the run ended: see done().');
    return turn;
  }

  /** The text as it comes. */
  async *text(): AsyncGenerator<string, void> {
    for await (const delta of this) if (delta.type === 'text.delta') yield delta.text;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Delta, void> {
    for await (const happening of this.#run.events({ after: this.#after })) {
      if (happening.type === 'turn.completed') return;
      if (!('seq' in happening)) yield happening;
    }
  }
}
