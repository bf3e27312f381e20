import { status } from '@grpc/grpc-js';
import type { AdapterUnderTest, OpenOptions } from '../../../adapters/conformance.ts';
import { jsonIn, objectOf } from '../../../adapters/turn/json-access.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { type EngineRequest, type GrpcEngine, startEngine } from './grpc-engine.ts';

/** The header that tells the bridge which exchange a call belongs to. */
const EXCHANGE = 'x-exchange';

type Bridge = AsyncDisposable & {
  /** Returns the `open` of an adapter under test. Its exchanges are lines of JSON, each a `GenerateResponse`. */
  opener(open: (options: Bridged) => ModelAdapter): AdapterUnderTest['open'];
};

/** The options of an adapter that calls the bridge. */
type Bridged = Omit<OpenOptions, 'fetch'> & { headers: Record<string, string> };

/**
 * Starts a gRPC server that passes each call on as an HTTP request, so that the conformance checks, which replay HTTP,
 * apply to adapters that speak gRPC. `read` converts the tokens of a prompt to the text that the model reads.
 */
export async function startBridge(read: (tokens: readonly number[]) => string): Promise<Bridge> {
  const exchanges = new Map<string, OpenOptions>();
  const engine: GrpcEngine = await startEngine((request, signal) => {
    const exchange = exchanges.get(String(request.metadata[EXCHANGE]));
    if (exchange === undefined) throw new RangeError('The call does not belong to an exchange.');
    return passOn(request, exchange, read(request.tokenized.input_ids), signal);
  });
  return {
    opener: open => options => {
      const id = String(exchanges.size);
      exchanges.set(id, options);
      const { apiKey, maxResponseBytes, idleTimeoutMs } = options;
      const baseURL = URL.canParse(options.baseURL) ? engine.baseURL : options.baseURL;
      return open({ apiKey, maxResponseBytes, idleTimeoutMs, baseURL, headers: { [EXCHANGE]: id } });
    },
    [Symbol.asyncDispose]: () => engine[Symbol.asyncDispose](),
  };
}

async function* passOn(
  { sampling_params }: EngineRequest,
  { fetch = globalThis.fetch, baseURL }: OpenOptions,
  prompt: string,
  signal: AbortSignal,
): AsyncGenerator<JsonObject, void> {
  const body = JSON.stringify({ prompt, sampling_params });
  const response = await fetch(`${baseURL}/generate`, { method: 'POST', body, signal });
  const decoder = new TextDecoder();
  let rest = '';
  for await (const bytes of response.body ?? []) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) yield messageIn(line);
  }
  const last = objectOf(jsonIn(rest));
  if (last.error !== undefined || last.complete !== undefined) yield messageIn(rest);
}

function messageIn(line: string): JsonObject {
  const message = objectOf(jsonIn(line));
  if (message.error === undefined) return message;
  throw { code: status.INTERNAL, details: String(objectOf(message.error).message) };
}

const HTTP = 'gRPC has its own status codes, tested in harmony-grpc-failures.test.ts.';
const BYTES = 'The library splits and joins the bytes of messages.';
const modes = (name: string, reason: string) => ({
  [`${name} (a stream)`]: reason,
  [`${name} (a response)`]: reason,
});

/** The checks of HTTP itself, with the reason why they do not apply. */
export const NOT_FOR_GRPC: Readonly<Record<string, string>> = {
  ...modes('a status of 401 is an authentication error', HTTP),
  ...modes('a status of 429 is a rate limit, with the wait in ms', HTTP),
  ...modes('a status of 500 is retryable', HTTP),
  ...modes('an HTML page with a status of 502 is retryable', HTTP),
  ...modes('a connection that breaks midway is a network error', HTTP),
  'an unreachable server is a network error': HTTP,
  'without a key no request is sent': 'It also answers without a key.',
  'a stream with more bytes than allowed is aborted': BYTES,
  'a response with more bytes than allowed is aborted': BYTES,
  'calls: gives the same in two at every position': BYTES,
  'streamed calls: gives the same in two at every position': BYTES,
};
