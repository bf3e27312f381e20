import type { FinishReason, ModelTurn, TurnDelta } from '../../protocol/turn.ts';
import { ShownDeltas } from '../turn/turn-deltas.ts';

/**
 * A stream that remembers what it has given.
 *
 * W1 Until the turn has come `turn` and `finishReason` are undefined, and the rest is the sum of the deltas.
 * W2 From then on everything is the turn's, which counts before what was streamed.
 */
export class WatchedTurn implements AsyncIterable<TurnDelta> {
  readonly #stream: AsyncIterable<TurnDelta>;
  readonly #shown = new ShownDeltas();
  #turn: ModelTurn | undefined;

  constructor(stream: AsyncIterable<TurnDelta>) {
    this.#stream = stream;
  }

  get turn(): ModelTurn | undefined {
    return this.#turn;
  }

  get finishReason(): FinishReason | undefined {
    return this.#turn?.finishReason;
  }

  get text(): string {
    return this.#turn?.text ?? this.#shown.text;
  }

  get reasoning(): string {
    return this.#turn?.reasoning ?? this.#shown.reasoning;
  }

  /** The calls as far as they have come, to be shown. To be run they are complete in the turn only. */
  get calls(): readonly { name: string; arguments: string }[] {
    return this.#turn?.toolCalls ?? this.#shown.calls;
  }

  /** Reads the stream, once. */
  async *[Symbol.asyncIterator](): AsyncGenerator<TurnDelta, void, undefined> {
    for await (const delta of this.#stream) {
      this.#shown.record(delta);
      if (delta.type === 'turn') this.#turn = delta.turn;
      yield delta;
    }
  }
}

/** For people who read the deltas themselves and want to know at any moment what has come so far. */
export function watchTurn(stream: AsyncIterable<TurnDelta>): WatchedTurn {
  return new WatchedTurn(stream);
}
