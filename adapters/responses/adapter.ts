import type { ModelAdapter } from '../../protocol/adapter.ts';
import { ProviderError } from '../../protocol/error.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import type { ModelRequest } from '../../protocol/turn.ts';
import type { ClientOptions } from '../http/client-transport.ts';
import { type Connection, type ConnectionOptions, connector } from '../http/connection.ts';
import { readErrorBody } from '../http/error-body.ts';
import type { HttpReply } from '../http/http-reply.ts';
import {
  errorFromThrown,
  malformedStream,
  type ProviderContext,
  unsupported,
} from '../http/provider-errors.ts';
import { readSse } from '../http/read-sse.ts';
import { nonEmpty, objectsOf } from '../turn/json-access.ts';
import { singleTurnAdapter } from '../turn/single-turn.ts';
import type { ResponsesDialect } from './dialect.ts';
import { bodyOf, growingInputs } from './request.ts';
import { failedResponse, readResponsesStream } from './stream.ts';
import { turnOf } from './turn.ts';

export type ResponsesOptions = ConnectionOptions &
  ClientOptions & {
    /** Laid over every request's body, under the request's own: objects are merged, `tools` and `include` appended. */
    providerOptions?: JsonObject;
    /** Whether the provider keeps responses to continue from. Default true. */
    store?: boolean;
    /** Whether the model reasons. Default: by its name. */
    reasoning?: boolean;
  };

/** A single-turn adapter for a provider that speaks the Responses API. */
export function responsesAdapter(dialect: ResponsesDialect, options: ResponsesOptions): ModelAdapter {
  const { model } = options;
  const now = options.now ?? Date.now;
  const inputOf = growingInputs(dialect);

  /** A provider that has forgotten the response to continue from is sent the whole transcript, once. */
  async function send(
    connection: Connection,
    request: ModelRequest,
    { stream, signal }: { stream: boolean; signal: AbortSignal },
  ): Promise<HttpReply> {
    const bodyOptions = {
      model,
      inputOf,
      stream,
      store: options.store ?? true,
      encryptedReasoning: options.reasoning ?? dialect.reasons(model),
      providerOptions: options.providerOptions,
    };
    const body = bodyOf(request, dialect, bodyOptions);
    try {
      return await connection.post('/responses', body, signal);
    } catch (thrown) {
      const error = errorFromThrown(thrown, connection.context, signal, now());
      if (!saysForgotten(error, body.previous_response_id)) throw error;
      const { continuation: _, ...whole } = request;
      return connection.post('/responses', bodyOf(whole, dialect, bodyOptions), signal);
    }
  }

  return singleTurnAdapter({
    provider: dialect.provider,
    model,
    capabilities: {
      streaming: true,
      parallelToolCalls: true,
      reasoningReplay: true,
      serverTools: true,
      structuredOutput: dialect.structuredOutput ?? 'native',
      continuation: dialect.remembers,
    },
    connect: connector(dialect, options),
    send,
    read(body, request, context) {
      refuseUnfinished(body, context);
      return turnOf(body, objectsOf(body.output), request, dialect, model);
    },
    async *readStream(chunks, request, context) {
      const { response, output } = yield* readResponsesStream(readSse(chunks), dialect, context);
      return turnOf(response, output, request, dialect, model);
    },
    now,
  });
}

function refuseUnfinished(body: JsonObject, context: ProviderContext): void {
  if (isJsonObject(body.error) || nonEmpty(body.error) !== undefined || body.status === 'failed') {
    throw failedResponse(body, context);
  }
  if (!Array.isArray(body.output)) {
    throw malformedStream('the response has no output', context, body);
  }
  if (body.status === 'queued' || body.status === 'in_progress') {
    throw unsupported(
      `the response is still ${body.status}. Background responses are not followed: leave out the option background.`,
      context,
    );
  }
}

/** Some providers name the id in words of their own, or only say that there is no such response. */
function saysForgotten(error: Error, previous: JsonValue | undefined): boolean {
  if (!(error instanceof ProviderError) || (error.status !== 400 && error.status !== 404)) return false;
  if (typeof previous !== 'string') return false;
  const { codes, message } = readErrorBody(error.raw);
  return (
    codes.includes('previous_response_not_found') ||
    message.includes(previous) ||
    /previous[ _]response.{0,200}(?:not found|cannot be used)/i.test(message)
  );
}
