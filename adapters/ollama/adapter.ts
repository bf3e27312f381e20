// Ollama's native API, `/api/chat`: the conversion of transcripts, the request body, and the reading of bodies and
// streams.
import type { ModelAdapter } from '../../protocol/adapter.ts';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import type { ModelRequest, TurnDelta } from '../../protocol/turn.ts';
import { type ConnectionOptions, connector, type Endpoint } from '../http/connection.ts';
import { readNdjson } from '../http/line-scanner.ts';
import { errorFromBody, malformedStream, type ProviderContext } from '../http/provider-errors.ts';
import { jsonIn, shorten } from '../turn/json-access.ts';
import { isErrorBody, singleTurnAdapter } from '../turn/single-turn.ts';
import { growingMessages } from './messages.ts';
import { bodyOf } from './request.ts';
import { OllamaTurn } from './turn.ts';

/** Options of the native Ollama adapter. */
export type OllamaNativeOptions = ConnectionOptions & {
  /**
   * Merged into the body of every request; the request's own options take precedence. Objects are merged,
   * `tools` appended.
   */
  providerOptions?: JsonObject;
};

/** Creates an adapter for `/api/chat` (https://docs.ollama.com/api/chat). */
export function ollamaAdapter(endpoint: Endpoint, options: OllamaNativeOptions): ModelAdapter {
  const { model, providerOptions } = options;
  const messagesOf = growingMessages({ provider: endpoint.provider, model });
  return singleTurnAdapter({
    provider: endpoint.provider,
    model,
    capabilities: {
      streaming: true,
      parallelToolCalls: true,
      reasoningReplay: true,
      serverTools: false,
      structuredOutput: 'native',
      continuation: false,
    },
    connect: connector(endpoint, options),
    send: (connection, request, { stream, signal }) =>
      connection.post('/api/chat', bodyOf(request, { model, messagesOf, stream, providerOptions }), signal),
    read(body, request, context) {
      const turn = new OllamaTurn(request, model);
      turn.push(body);
      if (!turn.isDone) throw malformedStream('the response is not marked as done', context, body);
      return turn.end();
    },
    readStream: (chunks, request, context) => readOllamaStream(chunks, request, model, context),
    now: options.now,
  });
}

/** An error in the middle of a stream is a server error, because the request was accepted. */
async function* readOllamaStream(
  chunks: AsyncIterable<Uint8Array>,
  request: ModelRequest,
  model: string,
  context: ProviderContext,
): AsyncGenerator<TurnDelta, ReturnType<OllamaTurn['end']>, undefined> {
  const turn = new OllamaTurn(request, model);
  let count = 0;
  for await (const text of readNdjson(chunks)) {
    const line = jsonIn(text);
    if (!isJsonObject(line)) throw malformedStream(`a line is not JSON: ${shorten(text, 80)}`, context);
    if (isErrorBody(line)) throw errorFromBody(line, context, 'server');
    count += 1;
    yield* turn.push(line);
    if (turn.isDone) return turn.end();
  }
  throw malformedStream(
    `truncated stream: it ended after ${count} lines, none of which was marked as done.`,
    context,
  );
}
