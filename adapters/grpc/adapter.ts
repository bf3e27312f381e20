import type { ChannelCredentials, Client, ClientReadableStream, Metadata } from '@grpc/grpc-js';
import type { CallOptions, Capabilities, ModelAdapter } from '../../protocol/adapter.ts';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import type { ModelRequest, ModelTurn, TurnDelta, Usage } from '../../protocol/turn.ts';
import {
  BoundCall,
  type ConnectionOptions,
  callLimits,
  type HttpReply,
  httpReply,
  readVariable,
  secretsIn,
} from '../http/connection.ts';
import {
  baseURLInvalid,
  errorFromBody,
  errorFromThrown,
  malformedStream,
  type ProviderContext,
  unsupported,
} from '../http/provider-errors.ts';
import { mergeOptions } from '../turn/json-access.ts';
import { turnAdapter } from '../turn/single-turn.ts';
import {
  ABORT,
  decodeResponse,
  encodeAbort,
  encodeGenerate,
  GENERATE,
  type GenerateRequest,
  type GenerateResponse,
} from './vllm-messages.ts';

export type PreparedCall = {
  tokens: readonly number[];
  stopTokens: readonly number[];
  constraint?: JsonObject;
  /** Further members of `SamplingParams`, which take precedence. */
  options: JsonObject;
  reader: {
    push(tokens: readonly number[]): TurnDelta[];
    end(ending: { finish: string; usage: Usage | null; model: string }): ModelTurn;
  };
};

type GrpcAdapterOptions = {
  endpoint: { provider: string; baseURLVariable: string; keyVariable: string };
  capabilities?: Partial<Capabilities>;
  connection: ConnectionOptions & { providerOptions?: JsonObject };
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
      const prepared = await prepare(request, context, providerOptions);
      const { tokens, stopTokens, constraint, options, reader } = prepared;
      const { temperature = null, topP, maxOutputTokens = null } = request.settings;
      const own = {
        stop_token_ids: [...stopTokens],
        skip_special_tokens: false,
        temperature,
        ...omitUndefined({ top_p: topP }),
        max_tokens: maxOutputTokens,
        ...constraint,
      };
      const sampling = mergeOptions(own, options);
      const requestId = crypto.randomUUID();
      const reply = await generate(requestId, encoded({ requestId, tokens, sampling }, context), signal);
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

function encoded(request: GenerateRequest, context: ProviderContext): Uint8Array {
  try {
    return encodeGenerate(request);
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

type Opened = { address: string; client: Client; metadata: Metadata };

/** Connects per call to `grpc://HOST:PORT` or `grpcs://`; shared, without keeping the process alive. */
function grpcConnector(endpoint: GrpcAdapterOptions['endpoint'], options: ConnectionOptions) {
  const limits = callLimits(options);
  let opened: Opened | undefined;
  return () => {
    const apiKey = options.apiKey ?? readVariable(endpoint.keyVariable) ?? '';
    const baseURL = options.baseURL ?? readVariable(endpoint.baseURLVariable) ?? '';
    const context: ProviderContext = {
      provider: endpoint.provider,
      model: options.model,
      keyVariable: endpoint.keyVariable,
      baseURLVariable: endpoint.baseURLVariable,
      baseURL,
      secrets: [apiKey, ...secretsIn(options.headers)],
    };
    const [, scheme = '', target = ''] = /^(grpcs?):\/\/([^/@?#\s]+)\/?$/.exec(baseURL) ?? [];
    if (target === '') throw baseURLInvalid(baseURL, context, 'grpc://localhost:50051');
    const open = async (): Promise<Opened> => {
      const address = `${apiKey} ${baseURL}`;
      if (opened?.address === address) return opened;
      const grpc = await loadPeer<typeof import('@grpc/grpc-js')>('@grpc/grpc-js', context);
      const credentials: ChannelCredentials =
        scheme === 'grpcs' ? grpc.credentials.createSsl() : grpc.credentials.createInsecure();
      const metadata = new grpc.Metadata();
      if (apiKey !== '') metadata.set('authorization', `Bearer ${apiKey}`);
      for (const [name, value] of Object.entries(options.headers ?? {})) metadata.set(name, value);
      opened?.client.close();
      opened = { address, client: new grpc.Client(target, credentials, CHANNEL), metadata };
      return opened;
    };
    return {
      context,
      /** Starts a generation. Each chunk of the reply is one `GenerateResponse`. */
      async generate(requestId: string, message: Uint8Array, signal: AbortSignal): Promise<HttpReply> {
        const call = new BoundCall(signal, limits.timeoutMs);
        const response = await call.begin(async bound =>
          startCall(await open(), requestId, message, bound, context),
        );
        return httpReply(response, limits, context, () => call.end());
      },
    };
  };
}

/** A call is made once; sizes are limited by the adapter. A lost connection is made again within two seconds. */
const CHANNEL = {
  'grpc.enable_retries': 0,
  'grpc.enable_http_proxy': 0,
  'grpc.service_config_disable_resolution': 1,
  'grpc.use_local_subchannel_pool': 1,
  'grpc.max_receive_message_length': -1,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 2_000,
};

function startCall(
  { client, metadata }: Opened,
  requestId: string,
  message: Uint8Array,
  signal: AbortSignal,
  context: ProviderContext,
): Promise<Response> {
  const stream: ClientReadableStream<Buffer> = client.makeServerStreamRequest(
    GENERATE,
    asBuffer,
    bytes => bytes,
    message,
    metadata,
  );
  let isOver = false;
  const stop = () => {
    if (isOver) return;
    isOver = true;
    stream.cancel();
    client.makeUnaryRequest(
      ABORT,
      asBuffer,
      bytes => bytes,
      encodeAbort(requestId),
      metadata,
      () => {
        // The stream was cancelled too, so a failed Abort changes nothing.
      },
    );
  };
  signal.addEventListener('abort', stop, { once: true });
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        stream.on('data', bytes => {
          controller.enqueue(bytes);
          if ((controller.desiredSize ?? 0) <= 0) stream.pause();
        });
        stream.on('end', () => {
          if (!isOver) controller.close();
          isOver = true;
        });
        stream.on('error', error => {
          controller.error(isOver ? error : fromGrpcError(error, context));
          isOver = true;
        });
      },
      pull: () => void stream.resume(),
      cancel: stop,
    },
    { highWaterMark: 64 },
  );
  const response = new Response(body);
  return new Promise((resolve, reject) => {
    stream.on('metadata', () => resolve(response));
    stream.on('end', () => resolve(response));
    stream.on('error', error => reject(signal.aborted ? error : fromGrpcError(error, context)));
  });
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** What grpc-js says of a connection that it could not make or that it lost. */
const NO_CONNECTION =
  /no connection established|connection dropped|name resolution failed|RST_STREAM|server shut ?down|goaway|ECONN|EPIPE/i;

/** The names of gRPC's status codes, by their number: https://grpc.io/docs/guides/status-codes/. */
const NAMES = [
  ...['ok', 'cancelled', 'unknown', 'invalid_argument', 'deadline_exceeded', 'not_found', 'already_exists'],
  ...['permission_denied', 'resource_exhausted', 'failed_precondition', 'aborted', 'out_of_range'],
  ...['unimplemented', 'internal', 'unavailable', 'data_loss', 'unauthenticated'],
];

/** Requests that a retry does not change. */
const SAME_AS: Readonly<Record<string, string>> = {
  failed_precondition: 'invalid_argument',
  out_of_range: 'invalid_argument',
  unimplemented: 'not_found',
};

/** Converts an error of grpc-js to one that is classified here. A call that the server cancelled lost its connection. */
function fromGrpcError(thrown: unknown, context: ProviderContext): unknown {
  if (!(thrown instanceof Error) || !('code' in thrown) || typeof thrown.code !== 'number') return thrown;
  const details = 'details' in thrown ? String(thrown.details) : thrown.message;
  const name = NAMES[thrown.code] ?? 'unknown';
  const isLost = (name === 'unavailable' || name === 'internal') && NO_CONNECTION.test(details);
  if (isLost || name === 'cancelled') {
    const systemCode = /\bE[A-Z]{4,}\b/.exec(details)?.[0];
    return Object.assign(new Error(`connection error: ${details}`), systemCode ? { code: systemCode } : {});
  }
  const error: JsonObject = { code: SAME_AS[name] ?? name, message: details };
  return errorFromBody({ error }, context, 'server');
}

/** Loads an optional peer; bundlers leave the import alone. A missing one: how to install it. */
export async function loadPeer<Module>(module: string, context: ProviderContext): Promise<Module> {
  try {
    return await import(/* @vite-ignore */ module);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code !== 'ERR_MODULE_NOT_FOUND') throw error;
    const name = /^(?:@[^/]+\/)?[^/]+/.exec(module)?.[0];
    throw unsupported(`the package ${name} is not installed. Install it with: npm install ${name}`, context);
  }
}
