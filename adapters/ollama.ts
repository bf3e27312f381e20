import type { ModelAdapter } from '../protocol/adapter.ts';
import { type JsonObject, omitUndefined } from '../protocol/json.ts';
import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { ModelRequest, ToolDefinition } from '../protocol/turn.ts';
import { chatAdapter } from './chat/adapter.ts';
import type { ChatDialect } from './chat/dialect.ts';
import { convertOnce } from './http/body-text.ts';
import {
  CONNECTION_NAMES,
  type ConnectionOptions,
  connector,
  type Endpoint,
  endpointOf,
} from './http/connection.ts';
import { readNdjson } from './http/read-sse.ts';
import { trimSlashes } from './http/transport.ts';
import { growingOllamaMessages } from './ollama/messages.ts';
import { OllamaTurn } from './ollama/turn.ts';
import { mergeOptions } from './turn/json-access.ts';
import { singleTurnAdapter } from './turn/single-turn.ts';
import { parametersOf, withOutputSchema } from './turn/strict-schema.ts';
import { offeredTools } from './turn/tool-calls.ts';

/** Options of `ollama`. */
export type OllamaOptions = OllamaNativeOptions & {
  /** `native` (default): Ollama's own `/api/chat`. `chat`: its Chat Completions API at `/v1`. */
  api?: 'native' | 'chat';
};

const NAMES: NamesOf<OllamaOptions> = { ...CONNECTION_NAMES, providerOptions: true, api: true };

/**
 * Creates an adapter for an Ollama server, local or remote. The base URL is the server's root, with or
 * without `/v1`; default: `OLLAMA_BASE_URL`, else `http://localhost:11434`. A key is optional:
 * `OLLAMA_API_KEY`, if set, is sent as a bearer token.
 *
 * The native API has no tool choice: `required` is treated as `auto`, a named tool is the only one sent, and
 * `none` sends no tools. Images and text files must be `data:` URLs.
 *
 * @example
 * const model = ollama({ model: 'qwen3' });
 */
export function ollama(options: OllamaOptions): ModelAdapter {
  refuseUnknownOptions('ollama', options, NAMES);
  const { api = 'native', ...connection } = options;
  return api === 'chat'
    ? chatAdapter(OLLAMA_CHAT, connection)
    : ollamaAdapter({ ...ENDPOINT, resolveURL: rootOf }, connection);
}

function rootOf(url: string): string {
  return trimSlashes(url).replace(/\/(?:v1|api)$/, '');
}

const ENDPOINT: Endpoint = {
  ...endpointOf('ollama', 'http://localhost:11434'),
  keyOptional: true,
  usage: 'unknown',
};

/** Ollama's Chat Completions endpoint. A `format` constrains the full output and would prevent tool calls. */
export const OLLAMA_CHAT: ChatDialect = {
  ...ENDPOINT,
  resolveURL: url => (url === '' ? url : `${rootOf(url)}/v1`),
  outputWithTools: 'instructions',
  reasoning: 'member',
};

type OllamaNativeOptions = ConnectionOptions & {
  /** Merged into the body of every request, before the request's own options. Objects are merged, `tools` appended. */
  providerOptions?: JsonObject;
};

/** Creates an adapter for `/api/chat` (https://docs.ollama.com/api/chat). */
function ollamaAdapter(endpoint: Endpoint, options: OllamaNativeOptions): ModelAdapter {
  const { model, providerOptions } = options;
  const messagesOf = growingOllamaMessages({ provider: endpoint.provider, model });

  /** With tools, the schema is part of the instructions: a `format` constrains all output and would prevent calls. */
  function bodyOf(request: ModelRequest, { stream }: { stream: boolean }): JsonObject {
    const tools = offeredTools(request);
    const { output, transcript } = request;
    const instructions =
      output && tools.length > 0 ? withOutputSchema(request.instructions, output) : request.instructions;
    const { maxOutputTokens, temperature, topP, reasoningEffort } = request.settings;
    const settings = omitUndefined({ num_predict: maxOutputTokens, temperature, top_p: topP });
    return mergeOptions(
      {
        model,
        messages: messagesOf({ transcript, ...omitUndefined({ instructions }) }),
        // Always sent, because the default is to stream.
        stream,
        ...(tools.length > 0 ? { tools: toolInputs(tools) } : {}),
        ...omitUndefined({ format: tools.length > 0 ? undefined : output?.schema }),
        ...(Object.keys(settings).length > 0 ? { options: settings } : {}),
        ...thinkInput(reasoningEffort, model),
      },
      mergeOptions(providerOptions ?? {}, request.providerOptions),
    );
  }

  return singleTurnAdapter({
    provider: endpoint.provider,
    model,
    capabilities: { structuredOutput: 'instructions', toolChoice: false },
    connect: connector(endpoint, options),
    send: (connection, request, mode) => connection.post('/api/chat', bodyOf(request, mode), mode.signal),
    reader: (request, context) => new OllamaTurn(request, context),
    events: readNdjson,
    ending: 'a line that is marked as done',
    streamFailure: 'server',
    now: options.now,
  });
}

const toolInputs = convertOnce<ToolDefinition>(tools =>
  tools.map(tool => {
    const { parameters } = parametersOf({ ...tool, strict: false });
    return { type: 'function', function: { name: tool.name, description: tool.description, parameters } };
  }),
);

/** Only gpt-oss takes levels, and its thinking cannot be turned off; all other models take `true` or `false`. */
function thinkInput(effort: string | undefined, model: string): JsonObject {
  if (effort === undefined) return {};
  return { think: /gpt-oss/.test(model) ? (LEVELS.get(effort) ?? effort) : effort !== 'none' };
}

const LEVELS: ReadonlyMap<string, string> = new Map([
  ['none', 'low'],
  ['minimal', 'low'],
  ['xhigh', 'high'],
  ['max', 'high'],
]);
