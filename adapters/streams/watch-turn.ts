import type { FinishReason, ModelTurn, TurnDelta } from '../../protocol/turn.ts';
import { ShownDeltas } from '../turn/turn-deltas.ts';

/**
 * A stream that accumulates what it has yielded.
 *
 * W1 Until the turn arrives, `turn` and `finishReason` are `undefined`; the other members accumulate the
 *    deltas.
 * W2 After that, all members come from the turn, which takes precedence over the deltas.
 */
export class WatchedTurn implements AsyncIterable<TurnDelta> {
  readonly #stream: AsyncIterable<TurnDelta>;
  readonly #shown = new ShownDeltas();
  #turn: ModelTurn | undefined;

  constructor(stream: AsyncIterable<TurnDelta>) {
    this.#stream = stream;
  }

  /** The complete turn; `undefined` until it has arrived. */
  get turn(): ModelTurn | undefined {
    return this.#turn;
  }

  /** The turn's finish reason; `undefined` until the turn has arrived. */
  get finishReason(): FinishReason | undefined {
    return this.#turn?.finishReason;
  }

  /** The text received so far. */
  get text(): string {
    return this.#turn?.text ?? this.#shown.text;
  }

  /** The reasoning received so far. */
  get reasoning(): string {
    return this.#turn?.reasoning ?? this.#shown.reasoning;
  }

  /** The calls received so far, for display. Only the turn has calls complete enough to run. */
  get calls(): readonly { name: string; arguments: string }[] {
    return this.#turn?.toolCalls ?? this.#shown.calls;
  }

  /** Iterates over the underlying stream; can be done once. */
  async *[Symbol.asyncIterator](): AsyncGenerator<TurnDelta, void, undefined> {
    for await (const delta of this.#stream) {
      this.#shown.record(delta);
      if (delta.type === 'turn') this.#turn = delta.turn;
      yield delta;
    }
  }
}

/**
 * Wraps a stream so that the text, reasoning and calls received so far can be read at any time.
 *
 * @example
 * const watched = watchTurn(adapter.stream(request, { signal }));
 * for await (const _delta of watched) render(watched.text, watched.calls);
 */
export function watchTurn(stream: AsyncIterable<TurnDelta>): WatchedTurn {
  return new WatchedTurn(stream);
}
