import type { ModelAdapter } from '../../protocol/adapter.ts';
import { ProviderError } from '../../protocol/error.ts';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import type { ModelRequest, ModelTurn, TurnDelta } from '../../protocol/turn.ts';
import { collectTurn } from '../collect-turn.ts';
import { readErrorBody } from '../error-body.ts';
import { jsonIn, nonEmpty, objectsOf, shorten } from '../json-access.ts';
import { type OpenAIClientOptions, type OpenAIConnection, openaiConnector } from '../openai-client.ts';
import { errorFromThrown, malformedStream, type ProviderContext } from '../provider-errors.ts';
import { readBody } from '../read-body.ts';
import { readSse } from '../read-sse.ts';
import { deltasUpTo, ShownDeltas } from '../turn-deltas.ts';
import type { ResponsesDialect } from './dialect.ts';
import { bodyOf } from './request.ts';
import { failedResponse, readResponsesStream } from './stream.ts';
import { turnOf } from './turn.ts';

export type ResponsesOptions = OpenAIClientOptions & {
  /** Laid over every request's body, under the request's own: objects are merged, `tools` and `include` appended. */
  providerOptions?: JsonObject;
  /** Whether the provider keeps responses to continue from. Default true. */
  store?: boolean;
  /** Whether the model reasons. Default: by its name. */
  reasoning?: boolean;
};

/** A single-turn adapter for a provider that speaks the Responses API. */
export function responsesAdapter(dialect: ResponsesDialect, options: ResponsesOptions): ModelAdapter {
  const connect = openaiConnector(dialect, options);
  const now = options.now ?? Date.now;

  async function* run(
    request: ModelRequest,
    signal: AbortSignal,
    stream: boolean,
  ): AsyncGenerator<TurnDelta, void> {
    const connection = await connect();
    try {
      signal.throwIfAborted();
      const response = await send(connection, request, signal, stream);
      yield* receive(response, connection.context, request, stream);
    } catch (thrown) {
      throw errorFromThrown(thrown, connection.context, signal, now());
    }
  }

  /** A provider that has forgotten the response to continue from is sent the whole transcript, once. */
  async function send(
    connection: OpenAIConnection,
    request: ModelRequest,
    signal: AbortSignal,
    stream: boolean,
  ): Promise<Response> {
    const bodyOptions = {
      model: options.model,
      stream,
      store: options.store ?? true,
      encryptedReasoning: options.reasoning ?? dialect.reasons(options.model),
      providerOptions: options.providerOptions,
    };
    const body = bodyOf(request, dialect, bodyOptions);
    try {
      return await connection.post('/responses', body, signal);
    } catch (thrown) {
      const error = errorFromThrown(thrown, connection.context, signal, now());
      if (body.previous_response_id === undefined || !saysForgotten(error)) throw error;
      const { continuation: _, ...whole } = request;
      return connection.post('/responses', bodyOf(whole, dialect, bodyOptions), signal);
    }
  }

  async function* receive(
    response: Response,
    context: ProviderContext,
    request: ModelRequest,
    stream: boolean,
  ): AsyncGenerator<TurnDelta, void> {
    if (!isEventStream(response, stream)) {
      const text = await response.text();
      const body = jsonIn(text);
      if (!isJsonObject(body))
        throw malformedStream(`expected a JSON object, got ${shorten(text, 80)}`, context);
      refuseUnfinished(body, context);
      yield* deltasUpTo(turnOf(body, objectsOf(body.output), request, dialect, options.model));
      return;
    }
    const shown = new ShownDeltas();
    const deltas = readResponsesStream(readSse(readBody(response)), dialect, context);
    let next = await deltas.next();
    try {
      while (!next.done) {
        shown.record(next.value);
        yield next.value;
        next = await deltas.next();
      }
    } finally {
      if (!next.done) await deltas.return({ response: {}, output: [] });
    }
    const { response: ended, output } = next.value;
    yield* deltasUpTo(turnOf(ended, output, request, dialect, options.model), shown);
  }

  return {
    provider: dialect.provider,
    model: options.model,
    capabilities: { continuation: dialect.remembers, structuredOutput: true, parallelToolCalls: true },
    generate: (request, { signal }): Promise<ModelTurn> => collectTurn(run(request, signal, false)),
    stream: (request, { signal }) => run(request, signal, true),
  };
}

/** What the server says it sends counts before what was asked for. */
function isEventStream(response: Response, asked: boolean): boolean {
  const type = response.headers.get('content-type') ?? '';
  if (type.includes('text/event-stream')) return true;
  return asked && !type.includes('json');
}

function refuseUnfinished(body: JsonObject, context: ProviderContext): void {
  if (isJsonObject(body.error) || nonEmpty(body.error) !== undefined || body.status === 'failed') {
    throw failedResponse(body, context);
  }
  if (!Array.isArray(body.output)) {
    throw malformedStream('the response has no output', context, body);
  }
  if (body.status === 'queued' || body.status === 'in_progress') {
    throw malformedStream(
      `the response is still ${body.status}. Background responses are not followed: leave out the option background.`,
      context,
    );
  }
}

function saysForgotten(error: Error): boolean {
  if (!(error instanceof ProviderError) || (error.status !== 400 && error.status !== 404)) return false;
  const { codes, message } = readErrorBody(error.raw);
  return (
    codes.includes('previous_response_not_found') ||
    /previous[ _]response.*(?:not found|cannot be used)/i.test(message)
  );
}
