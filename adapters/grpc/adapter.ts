import type { CallOptions, Capabilities, ModelAdapter } from '../../protocol/adapter.ts';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import type { ModelRequest, ModelTurn, TurnDelta, Usage } from '../../protocol/turn.ts';
import type { ConnectionOptions } from '../http/connection.ts';
import {
  errorFromThrown,
  malformedStream,
  type ProviderContext,
  unsupported,
} from '../http/provider-errors.ts';
import { mergeOptions } from '../turn/json-access.ts';
import { turnAdapter } from '../turn/single-turn.ts';
import { type EncodedRequest, type GrpcEndpoint, grpcConnector } from './connection.ts';
import {
  decodeResponse,
  encodeGenerate,
  type GenerateRequest,
  type GenerateResponse,
} from './vllm-messages.ts';

type TokenReader = {
  push(tokens: readonly number[]): TurnDelta[];
  end(ending: { finish: string; usage: Usage | null; model: string }): ModelTurn;
};

export type PreparedCall = {
  tokens: readonly number[];
  stopTokens: readonly number[];
  /** Members of `SamplingParams` that constrain the reply. */
  constraint?: JsonObject;
  /** Further members of `SamplingParams`, which take precedence. */
  options: JsonObject;
  reader: TokenReader;
};

type GrpcAdapterOptions = {
  endpoint: GrpcEndpoint;
  capabilities?: Partial<Capabilities>;
  connection: ConnectionOptions & { providerOptions?: JsonObject };
  /** Renders and encodes a request. `options` are the provider options of adapter and request. */
  prepare(request: ModelRequest, context: ProviderContext, options: JsonObject): Promise<PreparedCall>;
};

/** Creates an adapter for a model behind vLLM's gRPC API. Each method makes one call of `Generate`. */
export function grpcAdapter({
  endpoint,
  capabilities = {},
  connection,
  prepare,
}: GrpcAdapterOptions): ModelAdapter {
  const { model, now = Date.now } = connection;
  const connect = grpcConnector(endpoint, connection);

  async function* call(
    request: ModelRequest,
    { signal }: CallOptions,
  ): AsyncGenerator<TurnDelta, ModelTurn, undefined> {
    const { generate, context } = connect();
    try {
      signal.throwIfAborted();
      const providerOptions = mergeOptions(connection.providerOptions ?? {}, request.providerOptions);
      const { tokens, stopTokens, constraint, options, reader } = await prepare(
        request,
        context,
        providerOptions,
      );
      const own = {
        stop_token_ids: [...stopTokens],
        skip_special_tokens: false,
        ...settingsOf(request),
        ...constraint,
      };
      const sampling = mergeOptions(own, options);
      const message = encoded({ requestId: crypto.randomUUID(), tokens, sampling }, context);
      const reply = await generate(message, signal);
      const counts = new ReplyCounts();
      for await (const bytes of reply.chunks()) {
        const message = messageIn(bytes, context);
        if (message === undefined) continue;
        yield* reader.push(counts.take(message));
        if (message.type === 'chunk') continue;
        if (message.finishReason === 'abort') {
          throw malformedStream('the server aborted the generation', context);
        }
        return reader.end({ finish: message.finishReason, usage: counts.usage, model });
      }
      throw malformedStream('truncated stream: it ended without a GenerateComplete', context);
    } catch (thrown) {
      throw errorFromThrown(thrown, context, signal, now());
    }
  }

  return turnAdapter({ provider: endpoint.provider, model, capabilities, call });
}

function settingsOf({ settings }: ModelRequest): JsonObject {
  const { temperature, topP, maxOutputTokens } = settings;
  return {
    temperature: temperature ?? null,
    ...omitUndefined({ top_p: topP }),
    max_tokens: maxOutputTokens ?? null,
  };
}

function encoded(request: GenerateRequest, context: ProviderContext): EncodedRequest {
  try {
    return { requestId: request.requestId, message: encodeGenerate(request) };
  } catch (error) {
    if (error instanceof RangeError) throw unsupported(`${error.message}.`, context);
    throw error;
  }
}

function messageIn(bytes: Uint8Array, context: ProviderContext): GenerateResponse | undefined {
  try {
    return decodeResponse(bytes);
  } catch (error) {
    if (error instanceof RangeError) throw malformedStream(error.message, context);
    throw error;
  }
}

/**
 * Counts the tokens of a reply.
 *
 * N1 Chunks are increments. The final message has all tokens of the reply or, in older servers, only those
 *    of the last chunk; tokens that were already received are not read twice.
 */
class ReplyCounts {
  readonly #received: number[] = [];
  #prompt = 0;
  #completion = 0;
  #cached = 0;

  take(message: GenerateResponse): number[] {
    this.#prompt = Math.max(this.#prompt, message.promptTokens);
    this.#completion = Math.max(this.#completion, message.completionTokens);
    this.#cached = Math.max(this.#cached, message.cachedTokens);
    const fresh = message.type === 'chunk' ? message.tokens : this.#newOf(message.tokens);
    for (const token of fresh) this.#received.push(token);
    return fresh;
  }

  get usage(): Usage | null {
    if (this.#prompt === 0 && this.#completion === 0) return null;
    return {
      inputTokens: this.#prompt,
      outputTokens: Math.max(this.#completion, this.#received.length),
      cachedInputTokens: this.#cached,
      cacheWriteTokens: null,
      reasoningTokens: null,
    };
  }

  #newOf(tokens: number[]): number[] {
    const received = this.#received;
    if (received.every((token, at) => token === tokens[at])) return tokens.slice(received.length);
    const start = received.length - tokens.length;
    return start >= 0 && tokens.every((token, at) => token === received[start + at]) ? [] : tokens;
  }
}
