import type { LanguageModelV2, LanguageModelV3, LanguageModelV4 } from '@ai-sdk/provider';
import type { ModelAdapter } from '../protocol/adapter.ts';
import { ProviderError } from '../protocol/error.ts';
import type { JsonObject } from '../protocol/json.ts';
import type { ModelRequest, ModelTurn, TurnDelta } from '../protocol/turn.ts';
import { callOptionsOf, type ProviderTools } from './ai-sdk/call-options.ts';
import { errorFromModel } from './ai-sdk/errors.ts';
import { orAborted, Patience } from './ai-sdk/patience.ts';
import { readParts } from './ai-sdk/stream.ts';
import { turnOf } from './ai-sdk/turn.ts';
import type { ProviderContext } from './http/provider-errors.ts';
import { refuseRedirects } from './http/refuse-redirects.ts';
import { collectTurn } from './streams/collect-turn.ts';
import { shorten } from './turn/json-access.ts';
import { deltasUpTo } from './turn/turn-deltas.ts';

export { refuseRedirects };

export type AiSdkModel = LanguageModelV4 | LanguageModelV3 | LanguageModelV2;

export type AiSdkOptions = {
  /** Laid over every call's, under the request's own, each by the provider's name: `{anthropic: {…}}`. */
  providerOptions?: JsonObject;
  /** The provider's own tools by name, as its package makes them: `{web_search: openai.tools.webSearch()}`. */
  providerTools?: ProviderTools;
  /** Sent with every request. */
  headers?: Record<string, string>;
  /** What must never be in an error, such as the model's key, which nobody but the model knows. */
  secrets?: readonly string[];
  /** How long the model may take until it answers, in ms; until the end of an answer that is not streamed. Default 10 minutes. */
  timeoutMs?: number;
  /** The longest pause in the middle of a stream, in ms. Default 5 minutes. */
  idleTimeoutMs?: number;
  /** How long the whole call may take, however steadily the answer comes, in ms. Default 30 minutes. */
  totalTimeoutMs?: number;
  /** ms since the epoch, to read `retry-after` dates by. */
  now?: () => number;
};

/**
 * Any language model of the AI SDK, as one model call: `doGenerate` or `doStream`, without its loop, its
 * tool execution and its retry. Key, URL, `fetch` and limits of size are the model's own: make it with
 * `fetch: refuseRedirects()`, or its key goes where a redirect points. Files are given by the URL they have. Throws a `ProviderError` `model-unknown` for what is no model of specification 2, 3 or 4.
 */
export function aiSdk(model: AiSdkModel, options: AiSdkOptions = {}): ModelAdapter {
  refuseOthers(model);
  const provider = `ai-sdk:${model.provider}`;
  const context: ProviderContext = {
    provider,
    model: model.modelId,
    keyVariable: '',
    baseURLVariable: '',
    baseURL: 'its endpoint',
    secrets: [
      ...(options.secrets ?? []),
      ...Object.values(options.headers ?? {}).filter(value => value.length >= 16),
    ],
  };
  const origin = { provider, model: model.modelId };
  const now = options.now ?? Date.now;

  async function* run(
    request: ModelRequest,
    caller: AbortSignal,
    stream: boolean,
  ): AsyncGenerator<TurnDelta, void> {
    const patience = new Patience(caller, context, options);
    const { signal } = patience;
    try {
      signal.throwIfAborted();
      const call = callOptionsOf(request, { model, provider, signal, ...options });
      const spoken = asCurrent(model);
      if (!stream) {
        const result = await orAborted(spoken.doGenerate(call), signal);
        const ended = { ...result, modelId: result.response?.modelId };
        yield* deltasUpTo(turnOf(ended, request, context));
        return;
      }
      const started = spoken.doStream(call);
      const parts = await orAborted(started, signal, late => late.stream.cancel());
      const { shown, ...ended } = yield* readParts(parts.stream, patience, context);
      yield* deltasUpTo(turnOf(ended, request, context), shown);
    } catch (thrown) {
      throw errorFromModel(patience.end ?? thrown, context, caller, now());
    } finally {
      patience.stop();
    }
  }

  return {
    ...origin,
    capabilities: {
      streaming: true,
      parallelToolCalls: true,
      reasoningReplay: true,
      serverTools: true,
      structuredOutput: 'native',
      continuation: false,
    },
    generate: (request, { signal }): Promise<ModelTurn> => collectTurn(run(request, signal, false), origin),
    stream: (request, { signal }) => run(request, signal, true),
  };
}

/** Older specifications differ in what is told apart where it is read and written: files, usage, finish reason. */
function asCurrent(model: AiSdkModel): LanguageModelV4 {
  return model as LanguageModelV4;
}

function refuseOthers(model: unknown): void {
  const { specificationVersion, provider, modelId } = Object(model);
  if (/^v[234]$/.test(specificationVersion)) return;
  const found =
    typeof model === 'string'
      ? `the text "${shorten(model, 80)}"`
      : `specification ${JSON.stringify(specificationVersion) ?? 'none'}`;
  throw new ProviderError(
    `Expected a language model of the AI SDK, of specification v2, v3 or v4, and got ${found}. Give what a provider package makes, such as openai('gpt-5') of @ai-sdk/openai.`,
    {
      code: 'model-unknown',
      status: null,
      retryable: false,
      retryAfterMs: null,
      provider: `ai-sdk:${provider ?? ''}`,
      model: String(modelId ?? (typeof model === 'string' ? model : '')),
      raw: null,
    },
  );
}
