// The Chat Completions API, for every provider that implements it: requests, streams and turns. A `ChatDialect`
// describes how a provider deviates.

import type { ModelAdapter } from '../../protocol/adapter.ts';
import { ProviderError } from '../../protocol/error.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { NamesOf } from '../../protocol/options/refuse-unknown.ts';
import type { ClientOptions } from '../http/client-transport.ts';
import { CONNECTION_NAMES, type ConnectionOptions, connector } from '../http/connection.ts';
import { readErrorBody } from '../http/error-body.ts';
import { errorFromThrown } from '../http/provider-errors.ts';
import { readSse } from '../http/read-sse.ts';
import { singleTurnAdapter } from '../turn/single-turn.ts';
import { Answer } from './answer.ts';
import type { ChatDialect } from './dialect.ts';
import { growingMessages } from './messages.ts';
import { bodyOf } from './request.ts';
import { readChatBody, readChatStream } from './stream.ts';
import { turnOf } from './turn.ts';

/** The options of every Chat Completions adapter. */
export type ChatOptions = ConnectionOptions &
  ClientOptions & {
    /**
     * Merged into the body of every request; the request's own options take precedence. Objects are merged,
     * `tools` appended.
     */
    providerOptions?: JsonObject;
  };

export const CHAT_NAMES: NamesOf<ChatOptions> = { ...CONNECTION_NAMES, client: true, providerOptions: true };

/** Creates the adapter of a provider that implements the Chat Completions API. */
export function chatAdapter(dialect: ChatDialect, options: ChatOptions): ModelAdapter {
  const { model } = options;
  const now = options.now ?? Date.now;
  const messagesOf = growingMessages(dialect, model);
  return singleTurnAdapter({
    provider: dialect.provider,
    model,
    capabilities: {
      streaming: true,
      parallelToolCalls: true,
      reasoningReplay: (dialect.reasoning ?? 'none') !== 'none',
      serverTools: dialect.serverTools ?? false,
      structuredOutput: (dialect.output ?? 'json_schema') === 'json_schema' ? 'native' : 'instructions',
      continuation: false,
    },
    connect: connector(dialect, options),
    async send(connection, request, { stream, signal }) {
      const { providerOptions } = options;
      const body = bodyOf(request, dialect, { model, messagesOf, stream, providerOptions });
      try {
        return await connection.post('/chat/completions', body, signal);
      } catch (thrown) {
        throw markRetryable(errorFromThrown(thrown, connection.context, signal, now()), dialect);
      }
    },
    read(body, request, context) {
      const answer = new Answer(dialect);
      const ending = readChatBody(body, answer, context);
      return turnOf(answer, ending, request, dialect, model);
    },
    async *readStream(chunks, request, context) {
      const answer = new Answer(dialect);
      try {
        const ending = yield* readChatStream(readSse(chunks), answer, context);
        return turnOf(answer, ending, request, dialect, model);
      } catch (thrown) {
        throw thrown instanceof ProviderError ? markRetryable(thrown, dialect) : thrown;
      }
    },
    now,
  });
}

/** Marks errors caused by the sampled output as retryable: another attempt may sample a valid one. */
function markRetryable(error: ProviderError, { retryableCodes = [] }: ChatDialect): ProviderError {
  if (error.retryable || !readErrorBody(error.raw).codes.some(code => retryableCodes.includes(code))) {
    return error;
  }
  const { message, code, status, retryAfterMs, provider, model, raw } = error;
  const details = { code, status, retryable: true, retryAfterMs, provider, model, raw };
  return new ProviderError(message, details, { cause: error.cause });
}
