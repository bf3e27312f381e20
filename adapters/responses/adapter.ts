// The Responses API, for every provider that implements it; a `ResponsesDialect` describes how one deviates.

import type { ModelAdapter, SetupChange } from '../../protocol/adapter.ts';
import type { ProviderError } from '../../protocol/error.ts';
import type { Item } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { textOf, userMessage } from '../../protocol/message.ts';
import type { NamesOf } from '../../protocol/options/refuse-unknown.ts';
import type { ModelRequest } from '../../protocol/turn.ts';
import { CONNECTION_NAMES, type ConnectionOptions, connector, usageFrom } from '../http/connection.ts';
import { readErrorBody } from '../http/provider-errors.ts';
import type { ClientOptions } from '../http/transport.ts';
import { nonEmpty, objectsOf, pick, textIn } from '../turn/json-access.ts';
import { singleTurnAdapter } from '../turn/single-turn.ts';
import type { ResponsesDialect } from './dialect.ts';
import { responsesBody, setupItems } from './request.ts';
import { ResponseReader } from './turn.ts';

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

export function responsesAdapter(dialect: ResponsesDialect, options: ResponsesOptions): ModelAdapter {
  const { model, store = true, reasoning = dialect.reasons(model), providerOptions } = options;
  const bodyOf = responsesBody(dialect, { model, store, encryptedReasoning: reasoning, providerOptions });

  return singleTurnAdapter({
    provider: dialect.provider,
    model,
    capabilities: {
      serverTools: true,
      structuredOutput: dialect.structuredOutput ?? 'native',
      continuation: dialect.remembers,
      customTools: dialect.customTools === 'client',
      usage: usageFrom(dialect, options),
      bindsReasoning: dialect.bindsReasoning?.(model) ?? false,
      toolSearch: dialect.searchesTools?.(model) ?? false,
    },
    ...(dialect.appends?.(model) && {
      append: (change: SetupChange, transcript: readonly Item[]) => setupItems(change, dialect, transcript),
    }),
    connect: connector(dialect, options),
    send: (connection, request, { stream, signal }) =>
      connection.post('/responses', bodyOf(request, { stream }), signal),
    again(error, { continuation, ...full }) {
      return isPreviousMissing(error, nonEmpty(continuation)) ? full : undefined;
    },
    ...(dialect.countsTokens && {
      count: {
        send: (connection, request, signal) =>
          connection.post(
            '/responses/input_tokens',
            pick(bodyOf(request, { stream: false }), COUNTED),
            signal,
          ),
        read: body => body.input_tokens,
      },
    }),
    /** https://developers.openai.com/api/reference/resources/responses/methods/compact */
    ...(dialect.compacts && {
      compact: {
        send: (connection, request, signal) =>
          connection.post('/responses/compact', pick(bodyOf(request, { stream: false }), COMPACTED), signal),
        read: (body, request, context) =>
          readCompacted(new ResponseReader(request, dialect, context), body, request),
      },
    }),
    reader: (request, context) => new ResponseReader(request, dialect, context),
    ending: 'response.completed, response.incomplete or an error',
    now: options.now,
  });
}

const COUNTED = [
  ...['model', 'instructions', 'input', 'previous_response_id', 'reasoning', 'text', 'truncation'],
  ...['tools', 'tool_choice', 'parallel_tool_calls'],
];

const COMPACTED = [
  'model',
  'instructions',
  'input',
  'previous_response_id',
  'prompt_cache_key',
  'prompt_cache_options',
];

/** All messages of the user, and a summary of all else, which only the provider can read. */
function readCompacted(reader: ResponseReader, body: JsonObject, { transcript }: ModelRequest) {
  const output = objectsOf(body.output);
  const isFromUser = ({ type, role }: JsonObject) => type === 'message' && role === 'user';
  const { items, usage } = reader.read({ ...body, output: output.filter(item => !isFromUser(item)) });
  const messages = output.filter(isFromUser).map(message => {
    const text = objectsOf(message.content)
      .map(part => textIn(part.text))
      .join('');
    const isSame = (item: Item) => item.type === 'message' && item.role === 'user' && textOf(item) === text;
    return transcript.find(isSame) ?? userMessage(text);
  });
  return { items: [...messages, ...items.filter(({ type }) => type === 'provider_item')], usage };
}

/** Whether the provider does not know the previous response. Some have only a message for it, no code. */
function isPreviousMissing({ status, raw }: ProviderError, previous: string | undefined): boolean {
  if (!previous || (status !== 400 && status !== 404)) return false;
  const { codes, message } = readErrorBody(raw);
  return (
    codes.includes('previous_response_not_found') ||
    message.includes(previous) ||
    /previous[ _]response.{0,200}(?:not found|cannot be used)/i.test(message)
  );
}
