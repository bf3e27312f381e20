import type { ModelAdapter } from '../protocol/adapter.ts';
import type { ProviderError } from '../protocol/error.ts';
import type { Item } from '../protocol/item.ts';
import type { JsonObject } from '../protocol/json.ts';
import type { ModelRequest } from '../protocol/turn.ts';
import { conversationOf, growingConversation } from './anthropic/messages.ts';
import { modelRules } from './anthropic/models.ts';
import { planOf } from './anthropic/plan.ts';
import { bodyOf } from './anthropic/request.ts';
import { readMessageStream } from './anthropic/stream.ts';
import { turnOf } from './anthropic/turn.ts';
import { keptBlock, PROVIDER } from './anthropic/wire-block.ts';
import type { ClientOptions } from './http/client-transport.ts';
import { type Connection, type ConnectionOptions, connector, type Endpoint } from './http/connection.ts';
import type { HttpReply } from './http/http-reply.ts';
import { errorFromThrown, malformedStream } from './http/provider-errors.ts';
import { readSse } from './http/read-sse.ts';
import { objectsOf } from './turn/json-access.ts';
import { singleTurnAdapter } from './turn/single-turn.ts';

export type AnthropicOptions = ConnectionOptions &
  ClientOptions & {
    /** Laid over every request's body, under the request's own: objects are merged, `tools` appended. */
    providerOptions?: JsonObject;
    /** Whether the model can be held to a schema; without that the answer comes as a call of a tool. Default: by its name. */
    nativeOutput?: boolean;
  };

/**
 * Anthropic's Messages API. Key and URL come from `ANTHROPIC_API_KEY` and `ANTHROPIC_BASE_URL` where the
 * options do not say; the URL is the root, without `/v1`. Beta features are asked for with
 * `headers: {'anthropic-beta': …}`, Bedrock and Vertex through their own clients: `client: new AnthropicBedrock()`.
 */
export function anthropic(options: AnthropicOptions): ModelAdapter {
  const { model, nativeOutput, providerOptions } = options;
  const now = options.now ?? Date.now;
  const grown = growingConversation();
  const planFor = (request: ModelRequest) => planOf(request, { model, nativeOutput, providerOptions });
  const outputToolOf = (request: ModelRequest) => {
    const { output } = planFor(request);
    return output.type === 'tool' ? output.name : undefined;
  };

  /** Thinking that the provider does not take back is left out, once: another model or transcript made it. */
  async function send(
    connection: Connection,
    request: ModelRequest,
    { stream, signal }: { stream: boolean; signal: AbortSignal },
  ): Promise<HttpReply> {
    const plan = planFor(request);
    const post = (withThinking: boolean) =>
      connection.post(
        '/v1/messages',
        bodyOf(request, plan, {
          model,
          stream,
          conversationOf: withThinking ? grown : items => conversationOf(items, { withThinking }),
        }),
        signal,
      );
    try {
      return await post(true);
    } catch (thrown) {
      const error = errorFromThrown(thrown, connection.context, signal, now());
      if (!refusesThinking(error) || !request.transcript.some(isThinking)) throw error;
      return post(false);
    }
  }

  return singleTurnAdapter({
    provider: PROVIDER,
    model,
    capabilities: {
      streaming: true,
      parallelToolCalls: true,
      reasoningReplay: true,
      serverTools: true,
      structuredOutput: (nativeOutput ?? modelRules(model).nativeOutput) ? 'native' : 'tool',
      continuation: false,
    },
    connect: connector(ENDPOINT, options),
    send,
    read(body, request, context) {
      if (!Array.isArray(body.content)) throw malformedStream('the message has no content', context, body);
      const content = objectsOf(body.content).map(block => ({ block }));
      return turnOf(body, content, request, outputToolOf(request), model);
    },
    async *readStream(chunks, request, context) {
      const outputTool = outputToolOf(request);
      const { message, content } = yield* readMessageStream(readSse(chunks), outputTool, context);
      return turnOf(message, content, request, outputTool, model);
    },
    now,
  });
}

function refusesThinking({ status, message }: ProviderError): boolean {
  return status === 400 && /signature|thinking`? blocks?/i.test(message) && !/expected/i.test(message);
}

function isThinking(item: Item): boolean {
  return item.type === 'reasoning' && keptBlock(item.opaque) !== undefined;
}

/**
 * API version 2023-06-01, through a client too: later ones refuse `temperature` and `top_p`, and other
 * servers of this API know only this one. `headers` can name another.
 */
const ENDPOINT: Endpoint = {
  provider: PROVIDER,
  keyVariables: ['ANTHROPIC_API_KEY'],
  baseURLVariable: 'ANTHROPIC_BASE_URL',
  defaultBaseURL: 'https://api.anthropic.com',
  keyHeader: 'x-api-key',
  headers: { 'anthropic-version': '2023-06-01' },
};
