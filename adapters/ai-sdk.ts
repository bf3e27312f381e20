import type { LanguageModelV4 } from '@ai-sdk/provider';
import type { CallOptions, ModelAdapter } from '../protocol/adapter.ts';
import { ProviderError } from '../protocol/error.ts';
import type { JsonObject } from '../protocol/json.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { ModelRequest, ModelTurn, TurnDelta } from '../protocol/turn.ts';
import { errorFromModel } from './ai-sdk/errors.ts';
import { callOptionsOf, type ProviderTools } from './ai-sdk/prompt.ts';
import { limitTime, orAborted } from './ai-sdk/time-limits.ts';
import { readParts, turnOf } from './ai-sdk/turn.ts';
import { callLimits, secretsIn } from './http/connection.ts';
import type { ProviderContext } from './http/provider-errors.ts';
import { refuseRedirects } from './http/transport.ts';
import { shorten } from './turn/json-access.ts';
import { turnAdapter } from './turn/single-turn.ts';

export { refuseRedirects };

/** A language model of an AI SDK provider package, of specification v2, v3 or v4. */
export type AiSdkModel = {
  readonly specificationVersion: 'v2' | 'v3' | 'v4';
  readonly provider: string;
  readonly modelId: string;
  doGenerate(options: never): PromiseLike<unknown>;
  doStream(options: never): PromiseLike<unknown>;
};

/** Options of `aiSdk`. */
export type AiSdkOptions = {
  /** Merged into every call, by provider name: `{anthropic: {…}}`. The request's own options take precedence. */
  providerOptions?: JsonObject;
  /** The provider's own tools by name, created by its package: `{web_search: openai.tools.webSearch()}`. */
  providerTools?: ProviderTools;
  /** Sent with every request. */
  headers?: Record<string, string>;
  /** Texts to redact from errors, such as the model's API key, which this adapter does not know. */
  secrets?: readonly string[];
  /** The time limit for the start of a stream, or for a complete answer, in ms. Default: 10 minutes. */
  timeoutMs?: number;
  /** The longest pause in a stream, in ms. Default: 5 minutes. */
  idleTimeoutMs?: number;
  /** The time limit for the whole call, in ms. Default: 30 minutes. */
  totalTimeoutMs?: number;
  /** The current time in ms since the epoch, for `retry-after` dates. Default: `Date.now`. */
  now?: () => number;
};

const NAMES = optionNames<AiSdkOptions>()(
  'providerOptions providerTools headers secrets timeoutMs idleTimeoutMs totalTimeoutMs now',
);

/**
 * Creates an adapter for a language model of the AI SDK. It makes single calls with `doGenerate` or
 * `doStream`, without the SDK's loop, tool execution and retries. Key, URL, `fetch` and size limits are the
 * model's own: create the model with `fetch: refuseRedirects()`, or a redirect can send its key elsewhere.
 * Files are passed by URL. Throws a `ProviderError` `model-unknown` for anything but a model of specification
 * v2, v3 or v4.
 *
 * @example
 * const openai = createOpenAI({ fetch: refuseRedirects() });
 * const model = aiSdk(openai('gpt-5'));
 */
export function aiSdk(model: AiSdkModel, options: AiSdkOptions = {}): ModelAdapter {
  assertModel(model);
  refuseUnknownOptions('aiSdk', options, NAMES);
  const provider = `ai-sdk:${model.provider}`;
  const context: ProviderContext = {
    provider,
    model: model.modelId,
    keyVariable: '',
    baseURLVariable: '',
    baseURL: 'its endpoint',
    secrets: [...(options.secrets ?? []), ...secretsIn(options.headers)],
  };
  const { now = Date.now } = options;

  async function* call(
    request: ModelRequest,
    { signal: caller, onBegin }: CallOptions,
    { stream }: { stream: boolean },
  ): AsyncGenerator<TurnDelta, ModelTurn, undefined> {
    const limits = limitTime(caller, context, callLimits(options));
    const { signal } = limits;
    try {
      signal.throwIfAborted();
      const callOptions = callOptionsOf(request, { model, provider, signal, ...options });
      // Older specifications differ only in files, usage and finish reason, which are handled where they are used.
      const current = model as LanguageModelV4;
      if (!stream) {
        const result = await orAborted(current.doGenerate(callOptions), signal);
        return turnOf({ ...result, modelId: result.response?.modelId }, request, context);
      }
      const started = current.doStream(callOptions);
      const parts = await orAborted(started, signal, late => late.stream.cancel());
      onBegin?.();
      return turnOf(yield* readParts(parts.stream, limits, context), request, context);
    } catch (thrown) {
      throw errorFromModel(limits.timeout() ?? thrown, context, caller, now());
    } finally {
      limits.stop();
    }
  }

  return turnAdapter({ provider, model: model.modelId, capabilities: { serverTools: true }, call });
}

function assertModel(model: unknown): void {
  const { specificationVersion, provider, modelId } = Object(model);
  if (/^v[234]$/.test(specificationVersion)) return;
  const found =
    typeof model === 'string'
      ? `the text "${shorten(model, 80)}"`
      : `specification ${JSON.stringify(specificationVersion) ?? 'none'}`;
  throw new ProviderError(
    `Expected a language model of the AI SDK, of specification v2, v3 or v4, but got ${found}. Pass a model of a provider package, such as openai('gpt-5') of @ai-sdk/openai.`,
    {
      code: 'model-unknown',
      provider: `ai-sdk:${provider ?? ''}`,
      model: String(modelId ?? (typeof model === 'string' ? model : '')),
    },
  );
}
