// The Responses API, for every provider that implements it: requests, continuation, streams and turns. A
// `ResponsesDialect` describes how a provider deviates.

import type { ModelAdapter } from '../../protocol/adapter.ts';
import { ProviderError } from '../../protocol/error.ts';
import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import type { NamesOf } from '../../protocol/options/refuse-unknown.ts';
import type { ModelRequest } from '../../protocol/turn.ts';
import type { HttpReply } from '../http/connection.ts';
import { CONNECTION_NAMES, type Connection, type ConnectionOptions, connector } from '../http/connection.ts';
import { errorFromThrown, readErrorBody } from '../http/provider-errors.ts';
import type { ClientOptions } from '../http/transport.ts';
import { pick } from '../turn/json-access.ts';
import { singleTurnAdapter } from '../turn/single-turn.ts';
import type { ResponsesDialect } from './dialect.ts';
import { bodyOf, growingInputs, toolInputs } from './request.ts';
import { ResponseReader } from './turn.ts';

/** The options of every Responses adapter. */
export type ResponsesOptions = ConnectionOptions &
  ClientOptions & {
    /**
     * Merged into the body of every request; the request's own options take precedence. Objects are merged,
     * `tools` and `include` appended.
     */
    providerOptions?: JsonObject;
    /** Whether the provider stores responses, so that later turns can continue from them. Default: `true`. */
    store?: boolean;
    /** Whether the model is a reasoning model. Default: judged by its name. */
    reasoning?: boolean;
  };

export const RESPONSES_NAMES: NamesOf<ResponsesOptions> = {
  ...CONNECTION_NAMES,
  client: true,
  providerOptions: true,
  store: true,
  reasoning: true,
};

/** Creates the adapter of a provider that implements the Responses API. */
export function responsesAdapter(dialect: ResponsesDialect, options: ResponsesOptions): ModelAdapter {
  const { model } = options;
  const now = options.now ?? Date.now;
  const inputOf = growingInputs(dialect);

  const sharedOptions = {
    model,
    inputOf,
    toolsOf: toolInputs(dialect),
    store: options.store ?? true,
    encryptedReasoning: options.reasoning ?? dialect.reasons(model),
    providerOptions: options.providerOptions,
  };

  /** If the provider no longer has the previous response, the full transcript is sent instead, once. */
  async function send(
    connection: Connection,
    request: ModelRequest,
    { stream, signal }: { stream: boolean; signal: AbortSignal },
  ): Promise<HttpReply> {
    const bodyOptions = { ...sharedOptions, stream };
    const body = bodyOf(request, dialect, bodyOptions);
    try {
      return await connection.post('/responses', body, signal);
    } catch (thrown) {
      const error = errorFromThrown(thrown, connection.context, signal, now());
      if (!isPreviousMissing(error, body.previous_response_id)) throw error;
      const { continuation: _, ...fullRequest } = request;
      return connection.post('/responses', bodyOf(fullRequest, dialect, bodyOptions), signal);
    }
  }

  function sendToCount(connection: Connection, request: ModelRequest, signal: AbortSignal) {
    const body = bodyOf(request, dialect, { ...sharedOptions, stream: false });
    return connection.post('/responses/input_tokens', pick(body, COUNTED), signal);
  }

  return singleTurnAdapter({
    provider: dialect.provider,
    model,
    capabilities: {
      serverTools: true,
      structuredOutput: dialect.structuredOutput ?? 'native',
      continuation: dialect.remembers,
      customTools: dialect.customTools === 'client',
    },
    connect: connector(dialect, options),
    send,
    ...(dialect.countsTokens ? { count: { send: sendToCount, read: body => body.input_tokens } } : {}),
    reader: (request, context) => new ResponseReader(request, dialect, context),
    ending: 'response.completed, response.incomplete or an error',
    now,
  });
}

const COUNTED = [
  ...['model', 'instructions', 'input', 'previous_response_id', 'reasoning', 'text', 'truncation'],
  ...['tools', 'tool_choice', 'parallel_tool_calls'],
];

/** Whether the provider does not know the previous response. Some have only a message for it, no code. */
function isPreviousMissing(error: Error, previous: JsonValue | undefined): boolean {
  if (!(error instanceof ProviderError) || (error.status !== 400 && error.status !== 404)) return false;
  if (typeof previous !== 'string') return false;
  const { codes, message } = readErrorBody(error.raw);
  return (
    codes.includes('previous_response_not_found') ||
    message.includes(previous) ||
    /previous[ _]response.{0,200}(?:not found|cannot be used)/i.test(message)
  );
}
