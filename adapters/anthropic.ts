import type { ModelAdapter, SetupChange } from '../protocol/adapter.ts';
import type { ProviderError } from '../protocol/error.ts';
import type { Item } from '../protocol/item.ts';
import { type JsonObject, toJson } from '../protocol/json.ts';
import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { ModelRequest } from '../protocol/turn.ts';
import { assertAccepted } from './anthropic/accepted-form.ts';
import { ANTHROPIC, growingConversation, keptBlock, setupItem } from './anthropic/messages.ts';
import { familyOf } from './anthropic/model-family.ts';
import { bodyOf, declarationsOf, planOf, type ThinkingDisplay } from './anthropic/request.ts';
import { requestHeaders, type VersionOptions } from './anthropic/request-headers.ts';
import { MessageReader } from './anthropic/turn.ts';
import {
  CONNECTION_NAMES,
  type ConnectionOptions,
  connector,
  type Endpoint,
  usageFrom,
} from './http/connection.ts';
import type { ProviderContext } from './http/provider-errors.ts';
import type { ClientOptions } from './http/transport.ts';
import { arrayOf, nonEmpty, pick } from './turn/json-access.ts';
import { singleTurnAdapter } from './turn/single-turn.ts';

/** Options of `anthropic`. */
export type AnthropicOptions = ConnectionOptions &
  ClientOptions &
  VersionOptions & {
    /** Merged into the body of every request, before the request's own options. Objects are merged, `tools` appended. */
    providerOptions?: JsonObject;
    /** Whether the model can enforce an output schema; if not, the answer is a tool call. Default: by its name. */
    nativeOutput?: boolean;
    /**
     * How much of the model's thinking is returned and shown. Default: `summarized` where the model would return none;
     * the newest write there also what they say between calls. `updates` is that alone (a beta feature).
     */
    display?: ThinkingDisplay;
  };

const NAMES: NamesOf<AnthropicOptions> = {
  ...CONNECTION_NAMES,
  client: true,
  providerOptions: true,
  nativeOutput: true,
  display: true,
  apiVersion: true,
  betas: true,
};

/**
 * Creates an adapter for Anthropic's Messages API. Defaults for key and URL: `ANTHROPIC_API_KEY` and
 * `ANTHROPIC_BASE_URL`; the URL is the root, without `/v1`. Use Bedrock and Vertex through their own clients:
 * `client: new AnthropicBedrock()`. What a model does not accept is mapped to what means the same, or refused with its
 * name before the request.
 *
 * @example
 * const model = anthropic({ model: 'claude-sonnet-4-5' });
 */
export function anthropic(options: AnthropicOptions): ModelAdapter {
  refuseUnknownOptions('anthropic', options, NAMES);
  const { model, nativeOutput, providerOptions, display } = options;
  const planFor = (request: ModelRequest) =>
    planOf(request, { model, nativeOutput, providerOptions, display });
  const family = familyOf(model);
  const conversationOf = growingConversation(family);
  const bodyFor = (request: ModelRequest, context: ProviderContext, { stream }: { stream: boolean }) => {
    const body = bodyOf(request, planFor(request), { model, stream, conversationOf });
    assertAccepted(body, family, context);
    return body;
  };
  const headersFor = (body: JsonObject, { providerOptions: asked }: ModelRequest) => {
    const betas = arrayOf(asked?.betas).filter(beta => typeof beta === 'string');
    return requestHeaders(body, family, { ...options, betas: [...(options.betas ?? []), ...betas] });
  };
  return singleTurnAdapter({
    provider: ANTHROPIC,
    model,
    capabilities: {
      serverTools: true,
      bindsReasoning: family.bindsThinking,
      toolSearch: family.toolSearch,
      structuredOutput: (nativeOutput ?? family.nativeOutput) ? 'native' : 'tool',
      usage: usageFrom(ENDPOINT, options),
    },
    promptedSchema(request) {
      const { type } = planFor(request).output;
      return type === 'tool' || type === 'words' ? toJson({ [type]: request.output }) : undefined;
    },
    append(change: SetupChange) {
      const { added, restored, removed } = change;
      if (!family.midConversationSystem) return undefined;
      if (!family.toolChanges && (added ?? restored ?? removed)) return undefined;
      return [setupItem(change, declarationsOf(added ?? [], family))];
    },
    connect: connector(ENDPOINT, options),
    send(connection, request, { stream, signal }) {
      const body = bodyFor(request, connection.context, { stream });
      return connection.post('/v1/messages', body, signal, headersFor(body, request));
    },
    /** Leaves the thinking out if the provider refuses that of another model or transcript. */
    again(error, { transcript, ...request }) {
      if (!refusesThinking(error) || !transcript.some(isThinking)) return undefined;
      return { ...request, transcript: transcript.filter(item => !isThinking(item)) };
    },
    count: {
      send(connection, request, signal) {
        const body = pick(bodyFor(request, connection.context, { stream: false }), COUNTED);
        const headers = headersFor(body, request);
        return connection.post('/v1/messages/count_tokens', body, signal, headers);
      },
      read: body => body.input_tokens,
    },
    /** https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand#request-a-summary */
    compact: {
      send(connection, request, signal) {
        const whole = bodyFor(request, connection.context, { stream: false });
        const body = { ...whole, compaction: { type: 'summarize' } };
        return connection.post('/v1/messages', body, signal, headersFor(body, request));
      },
      read(body, request, context) {
        const sentMessages = () => conversationOf(request.transcript).input;
        const { items, usage } = new MessageReader(request, context, {
          outputTool: undefined,
          sentMessages,
        }).read(body);
        return { items: items.filter(isKeptSummary), usage };
      },
    },
    reader(request, context) {
      const { output } = planFor(request);
      return new MessageReader(request, context, {
        outputTool: output.type === 'tool' ? output.name : undefined,
        sentMessages: () => conversationOf(request.transcript).input,
      });
    },
    ending: 'message_stop or an error',
    now: options.now,
  });
}

/** The members of a request that the counting endpoint takes. It refuses others. */
const COUNTED = [
  ...['model', 'system', 'messages', 'tools', 'tool_choice', 'thinking', 'output_config'],
  ...['context_management', 'mcp_servers', 'speed'],
];

/** A summary without content is a failed one. */
function isKeptSummary(item: Item): boolean {
  const block = item.type === 'provider_item' ? keptBlock(item.opaque) : undefined;
  return block?.type === 'compaction' && nonEmpty(block.content) !== undefined;
}

function refusesThinking({ status, message }: ProviderError): boolean {
  return status === 400 && /signature|thinking`? blocks?/i.test(message) && !/expected/i.test(message);
}

function isThinking(item: Item): boolean {
  return item.type === 'reasoning' && keptBlock(item.opaque) !== undefined;
}

const ENDPOINT: Endpoint = {
  provider: ANTHROPIC,
  keyVariables: ['ANTHROPIC_API_KEY'],
  baseURLVariable: 'ANTHROPIC_BASE_URL',
  defaultBaseURL: 'https://api.anthropic.com',
  keyHeader: 'x-api-key',
};
