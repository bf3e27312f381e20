import type { Capabilities, ModelAdapter } from '../protocol/adapter.ts';
import type { JsonObject } from '../protocol/json.ts';
import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { ModelRequest } from '../protocol/turn.ts';
import { grpcAdapter } from './grpc/adapter.ts';
import { CompletionsTurn, completionsBody } from './harmony/completions.ts';
import { prepareHarmony, RecentTokens } from './harmony/encoding.ts';
import { HARMONY, promptText, renderPrompt } from './harmony/render.ts';
import { CONNECTION_NAMES, type ConnectionOptions, connector, readVariable } from './http/connection.ts';
import type { ProviderContext } from './http/provider-errors.ts';
import { singleTurnAdapter } from './turn/single-turn.ts';

/** Options of `harmony`. */
export type HarmonyOptions = ConnectionOptions & {
  /**
   * `completions`: an HTTP API with `/completions`. `grpc`: vLLM's gRPC API. Default: `grpc` if the base URL
   * begins with `grpc://` or `grpcs://` when the adapter is created, else `completions`.
   */
  transport?: 'completions' | 'grpc';
  /** The date in the prompt, as `YYYY-MM-DD`. Default: the current date in UTC. */
  today?: string;
  /** The end of the model's knowledge, in the prompt. Default: `2024-06`. */
  knowledgeCutoff?: string;
  /** Merged into every request (over gRPC into the sampling parameters), before the request's own options. */
  providerOptions?: JsonObject;
};

const NAMES: NamesOf<HarmonyOptions> = {
  ...CONNECTION_NAMES,
  transport: true,
  today: true,
  knowledgeCutoff: true,
  providerOptions: true,
};

const BASE_URL_VARIABLE = 'HARMONY_BASE_URL';
const KEY_VARIABLE = 'HARMONY_API_KEY';

/**
 * Creates an adapter for a gpt-oss model whose server has no chat layer: the Harmony format is rendered and
 * parsed here. The base URL is that of a server with `/completions`, such as `http://localhost:8000/v1`, or
 * vLLM's gRPC address, such as `grpc://localhost:50051`; default: `HARMONY_BASE_URL`. A key is optional:
 * `HARMONY_API_KEY`, if set, is sent as a bearer token. gRPC needs the packages `@grpc/grpc-js` and
 * `gpt-tokenizer`.
 *
 * The format has no tool choice: `required` is treated as `auto`, a named tool is the only one shown to the
 * model, and `none` shows no tools. An output schema is part of the prompt; over gRPC, it is also enforced.
 * Messages may contain only text and text files in `data:` URLs.
 *
 * @example
 * const model = harmony({ model: 'openai/gpt-oss-20b', baseURL: 'http://localhost:8000/v1' });
 */
export function harmony(options: HarmonyOptions): ModelAdapter {
  refuseUnknownOptions('harmony', options, NAMES);
  const { model, knowledgeCutoff = '2024-06' } = options;
  const now = options.now ?? Date.now;
  const promptFor = (request: ModelRequest, context: ProviderContext) =>
    renderPrompt(request, {
      knowledgeCutoff,
      today: options.today ?? new Date(now()).toISOString().slice(0, 10),
      context,
    });
  const baseURL = options.baseURL ?? readVariable(BASE_URL_VARIABLE) ?? '';
  const transport = options.transport ?? (/^grpcs?:/.test(baseURL) ? 'grpc' : 'completions');
  const capabilities: Partial<Capabilities> = {
    parallelToolCalls: false,
    structuredOutput: 'instructions',
    toolChoice: false,
  };
  if (transport === 'grpc') {
    const recent = new RecentTokens();
    return grpcAdapter({
      endpoint: { provider: HARMONY, baseURLVariable: BASE_URL_VARIABLE, keyVariable: KEY_VARIABLE },
      capabilities,
      connection: options,
      prepare: (request, context, providerOptions) =>
        prepareHarmony(promptFor(request, context), request, context, providerOptions, recent),
    });
  }
  return singleTurnAdapter({
    provider: HARMONY,
    model,
    capabilities,
    connect: connector(
      {
        provider: HARMONY,
        keyVariables: [KEY_VARIABLE],
        keyOptional: true,
        baseURLVariable: BASE_URL_VARIABLE,
        baseURLExample: 'http://localhost:8000/v1',
      },
      options,
    ),
    send(connection, request, { stream, signal }) {
      const prompt = promptText(promptFor(request, connection.context));
      const { providerOptions } = options;
      const body = completionsBody(request, { model, prompt, stream, providerOptions });
      return connection.post('/completions', body, signal);
    },
    reader: (request, context) => new CompletionsTurn(request, context),
    ending: 'a finish_reason',
    now,
  });
}
