import type { ToolCall, TurnDelta } from '../../protocol/turn.ts';
import { callsToRun } from './classify-turn.ts';
import { collectTurn } from './collect-turn.ts';

/**
 * Yields the complete tool calls of a stream that the provider did not run itself, in the order of the turn.
 * Answer each of them, but do not run one that has an `error`.
 *
 * The calls are yielded when the stream's `turn` arrives. Before that they are not final: fragments of
 * several calls interleave, arguments that parse may continue, a provider may correct what it streamed, and
 * the stream may fail or be cut off. Call ids are only known from the turn. To show calls earlier, use
 * `watchTurn`. Rejects with the stream's `ProviderError`.
 *
 * @example
 * for await (const call of toolCallsOf(adapter.stream(request, { signal }))) console.log(call.name, call.input);
 */
export async function* toolCallsOf(
  stream: AsyncIterable<TurnDelta>,
): AsyncGenerator<ToolCall, void, undefined> {
  yield* callsToRun(await collectTurn(stream));
}
