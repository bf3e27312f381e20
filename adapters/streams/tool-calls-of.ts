import type { ToolCall, TurnDelta } from '../../protocol/turn.ts';
import { callsToRun } from './classify-turn.ts';
import { collectTurn } from './collect-turn.ts';

/**
 * The complete calls of a stream that the provider did not run itself, in the order of the turn. Every
 * one is to be answered; one with an `error` is not to be run (see `callsToRun`).
 *
 * They come with the `turn` that ends the stream, which is the first moment they are complete. Before it
 * fragments of several calls may interleave, arguments that parse may go on, a provider may correct what
 * it has streamed, and a stream may fail or be cut off by its length; ids are known from the turn alone.
 * What can be shown before that, `watchTurn` has. Rejects with what the stream throws, a `ProviderError`.
 */
export async function* toolCallsOf(
  stream: AsyncIterable<TurnDelta>,
): AsyncGenerator<ToolCall, void, undefined> {
  yield* callsToRun(await collectTurn(stream));
}
