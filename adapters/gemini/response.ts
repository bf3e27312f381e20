import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import type { ModelRequest, ModelTurn, TurnDelta } from '../../protocol/turn.ts';
import { errorFromBody, malformedStream, type ProviderContext } from '../http/provider-errors.ts';
import { isBlank, type SseEvent } from '../http/read-sse.ts';
import { jsonIn, shorten } from '../turn/json-access.ts';
import { isErrorBody } from '../turn/single-turn.ts';
import { TurnReader } from './turn.ts';

/** Reads a complete response. Throws a `ProviderError` if it has neither a candidate nor a block reason. */
export function readBody(body: JsonObject, request: ModelRequest, context: ProviderContext): ModelTurn {
  const reader = new TurnReader(request.transcript, context.model);
  reader.read(body);
  if (reader.answered) return reader.turn();
  throw malformedStream('the response has no candidate and no block reason', context, body);
}

/**
 * Yields the deltas of a streamed response and returns its turn. Each event is a response with the next
 * parts. Events after the finish reason are read too, because they may update the usage. Throws a
 * `ProviderError` for an error in the stream and for a truncated stream.
 */
export async function* readEvents(
  events: AsyncIterable<SseEvent>,
  request: ModelRequest,
  context: ProviderContext,
): AsyncGenerator<TurnDelta, ModelTurn, undefined> {
  const reader = new TurnReader(request.transcript, context.model);
  let count = 0;
  for await (const { data } of events) {
    if (isBlank(data)) continue;
    const response = jsonIn(data);
    if (response !== undefined && isErrorBody(response)) throw errorFromBody(response, context);
    if (!isJsonObject(response)) {
      throw malformedStream(`an event is not a JSON object: ${shorten(data, 80)}`, context);
    }
    count += 1;
    yield* reader.read(response);
  }
  if (reader.ended) return reader.turn();
  throw malformedStream(
    `truncated stream: it ended after ${count} events without a finish reason or a block reason.`,
    context,
  );
}
