import type { Capabilities, ModelAdapter } from '../../protocol/adapter.ts';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import type { ModelRequest, ModelTurn, TurnDelta, Usage } from '../../protocol/turn.ts';
import type { ConnectionOptions } from '../http/connection.ts';
import {
  errorFromThrown,
  malformedStream,
  type ProviderContext,
  unsupported,
} from '../http/provider-errors.ts';
import { collectTurn } from '../streams.ts';
import { mergeOptions } from '../turn/json-access.ts';
import { deltasUpTo, ShownDeltas } from '../turn/turn-deltas.ts';
import { type EncodedRequest, type GrpcConnection, type GrpcEndpoint, grpcConnector } from './connection.ts';
import {
  decodeResponse,
  encodeGenerate,
  type GenerateRequest,
  type GenerateResponse,
} from './vllm-messages.ts';

type TokenReader = {
  push(tokens: readonly number[]): TurnDelta[];
  /** Ends the reply and returns its turn. `finish` is the server's finish reason. */
  end(ending: { finish: string; usage: Usage | null; model: string }): ModelTurn;
};

/** A request as tokens, and the reader of its reply. */
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
  capabilities: Capabilities;
  connection: ConnectionOptions & { providerOptions?: JsonObject };
  /** Renders and encodes a request. `options` are the provider options of adapter and request. */
  prepare(request: ModelRequest, context: ProviderContext, options: JsonObject): Promise<PreparedCall>;
};

/** Creates an adapter for a model behind vLLM's gRPC API. Each method makes one call of `Generate`. */
export function grpcAdapter({
  endpoint,
  capabilities,
  connection,
  prepare,
}: GrpcAdapterOptions): ModelAdapter {
  const { provider } = endpoint;
  const { model } = connection;
  const connect = grpcConnector(endpoint, connection);
  const now = connection.now ?? Date.now;

  async function* stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<TurnDelta, void> {
    const opened = connect();
    try {
      signal.throwIfAborted();
      const options = mergeOptions(connection.providerOptions ?? {}, request.providerOptions);
      const prepared = await prepare(request, opened.context, options);
      yield* deltasOf(request, prepared, opened, signal);
    } catch (thrown) {
      throw errorFromThrown(thrown, opened.context, signal, now());
    }
  }

  async function* deltasOf(
    request: ModelRequest,
    { tokens, stopTokens, constraint, options, reader }: PreparedCall,
    { generate, context }: GrpcConnection,
    signal: AbortSignal,
  ): AsyncGenerator<TurnDelta, void> {
    const own = {
      stop_token_ids: [...stopTokens],
      skip_special_tokens: false,
      ...settingsOf(request),
      ...constraint,
    };
    const sampling = mergeOptions(own, options);
    const reply = await generate(
      encoded({ requestId: crypto.randomUUID(), tokens, sampling }, context),
      signal,
    );
    const counts = new ReplyCounts();
    const shown = new ShownDeltas();
    for await (const bytes of reply.chunks()) {
      const message = messageIn(bytes, context);
      if (message === undefined) continue;
      for (const delta of reader.push(counts.take(message))) {
        shown.record(delta);
        yield delta;
      }
      if (message.type === 'chunk') continue;
      if (message.finishReason === 'abort') {
        throw malformedStream('the server aborted the generation', context);
      }
      const turn = reader.end({ finish: message.finishReason, usage: counts.usage, model });
      return yield* deltasUpTo(turn, shown);
    }
    throw malformedStream('truncated stream: it ended without a GenerateComplete', context);
  }

  return {
    provider,
    model,
    capabilities,
    generate: (request, { signal }) => collectTurn(stream(request, signal), { provider, model }),
    stream: (request, { signal }) => stream(request, signal),
  };
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

  /** `null` if the server sent no counts. */
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
