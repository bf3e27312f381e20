import { fileURLToPath } from 'node:url';
import { Server, ServerCredentials, type ServerWritableStream, status } from '@grpc/grpc-js';
import { load } from '@grpc/proto-loader';
import type { JsonObject } from '../../../protocol/json.ts';

/** A `GenerateRequest` as decoded by the server, and its metadata. */
export type EngineRequest = {
  request_id: string;
  tokenized: { input_ids: number[]; original_text: string };
  sampling_params: JsonObject;
  stream: boolean;
  metadata: Record<string, unknown>;
};

/** Yields `GenerateResponse` messages. A thrown object with a `code` and `details` becomes that gRPC status. */
export type Respond = (request: EngineRequest, signal: AbortSignal) => AsyncIterable<JsonObject>;

export type GrpcEngine = AsyncDisposable & {
  /** In the form `grpc://HOST:PORT`. */
  baseURL: string;
  requests: EngineRequest[];
  /** Resolves with the ids of the next `Abort`. */
  aborted(): Promise<string[]>;
};

const PROTO = fileURLToPath(new URL('vllm_engine.proto', import.meta.url));

/**
 * Starts a server of vLLM's gRPC API on 127.0.0.1. It encodes and decodes messages by the published
 * definition with protobufjs, independently of the adapters.
 */
export async function startEngine(respond: Respond): Promise<GrpcEngine> {
  const definition = await load(PROTO, { keepCase: true, oneofs: true, defaults: true });
  const requests: EngineRequest[] = [];
  const aborts: string[][] = [];
  const waiting: ((ids: string[]) => void)[] = [];
  const server = new Server();
  server.addService(definition['vllm.grpc.engine.VllmEngine'] as never, {
    Generate: (call: ServerWritableStream<Omit<EngineRequest, 'metadata'>, JsonObject>) => {
      const request = { ...call.request, metadata: call.metadata.getMap() };
      requests.push(request);
      void answer(call, respond, request);
    },
    Abort: (call: { request: { request_ids: string[] } }, callback: (error: null, value: object) => void) => {
      const next = waiting.shift();
      if (next) next(call.request.request_ids);
      else aborts.push(call.request.request_ids);
      callback(null, {});
    },
  });
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    ),
  );
  return {
    baseURL: `grpc://127.0.0.1:${port}`,
    requests,
    aborted: () => {
      const known = aborts.shift();
      return known ? Promise.resolve(known) : new Promise(resolve => waiting.push(resolve));
    },
    [Symbol.asyncDispose]: async () => server.forceShutdown(),
  };
}

async function answer(
  call: ServerWritableStream<Omit<EngineRequest, 'metadata'>, JsonObject>,
  respond: Respond,
  request: EngineRequest,
): Promise<void> {
  const controller = new AbortController();
  call.on('cancelled', () => controller.abort());
  call.on('error', () => undefined);
  try {
    for await (const message of respond(request, controller.signal)) call.write(message);
    call.end();
  } catch (error) {
    const known = typeof error === 'object' && error !== null && 'code' in error && 'details' in error;
    if (!controller.signal.aborted) {
      call.emit('error', known ? error : { code: status.INTERNAL, details: String(error) });
    }
  }
}

/** The messages of a reply with these tokens: chunks of a few tokens each, and the end. */
export function messagesOf(
  tokens: readonly number[],
  {
    finish = 'stop',
    size = 3,
    prompt = 50,
    cached = 10,
  }: { finish?: string; size?: number; prompt?: number; cached?: number } = {},
): JsonObject[] {
  const chunks: JsonObject[] = [];
  for (let at = 0; at < tokens.length; at += size) {
    chunks.push({
      chunk: {
        token_ids: tokens.slice(at, at + size),
        prompt_tokens: prompt,
        completion_tokens: Math.min(at + size, tokens.length),
        cached_tokens: cached,
      },
    });
  }
  const counts = { prompt_tokens: prompt, completion_tokens: tokens.length, cached_tokens: cached };
  return [...chunks, { complete: { output_ids: [...tokens], finish_reason: finish, ...counts } }];
}
