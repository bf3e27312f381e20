import assert from 'node:assert/strict';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import { ProviderError, type ProviderErrorDetails } from '../../protocol/error.ts';
import type { ModelRequest, ModelTurn, TurnDelta } from '../../protocol/turn.ts';
import { type Answer, SSE_HEADERS } from './answer.ts';
import type { AdapterUnderTest, Exchange, OpenOptions } from './check.ts';
import { type ReplayFetch, replayFetch } from './replay-fetch.ts';

/** The key of every call; no error may have it. */
export const API_KEY = 'conformance-4f1d2c7b90ae';

/** A provider that is not there, for calls that go through a `fetch` of ours. */
export const NOWHERE = 'http://provider.invalid';

/** Limits that no check reaches by chance. */
export const WIDE: Omit<OpenOptions, 'baseURL'> = {
  apiKey: API_KEY,
  maxResponseBytes: 64 * 1024 * 1024,
  idleTimeoutMs: 60_000,
};

export const HELLO: ModelRequest = {
  transcript: [{ type: 'message', role: 'user', content: [{ type: 'text', text: 'hello' }] }],
  tools: [],
  toolChoice: 'auto',
  settings: {},
};

export function requestOf(exchange: Exchange): ModelRequest {
  return exchange.request ?? HELLO;
}

export function bytesOf({ response }: Pick<Exchange, 'response'>): Uint8Array {
  return typeof response === 'string' ? new TextEncoder().encode(response) : response;
}

/** The answer of the exchange, its bytes in these pieces. */
export function answerOf(exchange: Exchange, chunks: Answer['chunks'] = [bytesOf(exchange)]): Answer {
  const type = exchange.contentType ?? (exchange.streamed ? SSE_HEADERS['content-type'] : 'application/json');
  return { headers: { 'content-type': type ?? '' }, chunks };
}

/** What came of one call: the deltas before the turn, and the turn. */
export type Outcome = { deltas: TurnDelta[]; turn: ModelTurn };

/** Makes the call as the exchange was made. A stream must end with its one turn. */
export async function call(
  adapter: ModelAdapter,
  exchange: Pick<Exchange, 'streamed' | 'request'>,
  {
    request = exchange.request ?? HELLO,
    signal = new AbortController().signal,
  }: { request?: ModelRequest; signal?: AbortSignal } = {},
): Promise<Outcome> {
  if (!exchange.streamed) return { deltas: [], turn: await adapter.generate(request, { signal }) };
  const deltas: TurnDelta[] = [];
  for await (const delta of adapter.stream(request, { signal })) deltas.push(delta);
  const last = deltas.pop();
  assert.ok(last?.type === 'turn', `a stream must end with a turn, not with ${last?.type ?? 'nothing'}`);
  return { deltas, turn: last.turn };
}

/** Plays an exchange without sockets, its bytes in these pieces. */
export type Play = (exchange: Exchange, chunks?: Answer['chunks']) => Promise<Outcome>;

/** Plays exchanges one after another through one adapter. */
export function player({ open }: AdapterUnderTest): Play & { adapter: ModelAdapter } {
  let replay = replayFetch();
  const adapter = open({ ...WIDE, baseURL: NOWHERE, fetch: (input, init) => replay.fetch(input, init) });
  const play: Play = (exchange, chunks) => {
    replay = replayFetch(answerOf(exchange, chunks));
    return call(adapter, exchange);
  };
  return Object.assign(play, { adapter });
}

/** Plays one exchange through an adapter of its own. */
export function play(
  subject: AdapterUnderTest,
  exchange: Exchange,
  chunks?: Answer['chunks'],
): Promise<Outcome> {
  return player(subject)(exchange, chunks);
}

/** Calls with this request and gives what the adapter sent. */
export async function send(
  { open }: AdapterUnderTest,
  exchange: Exchange,
  request: ModelRequest,
): Promise<ReplayFetch['requests']> {
  const { fetch, requests } = replayFetch(answerOf(exchange));
  await call(open({ ...WIDE, baseURL: NOWHERE, fetch }), exchange, { request });
  return requests;
}

/**
 * Passes when `work` rejects with a `ProviderError` that has these details, names provider and model,
 * and does not have the key anywhere in it.
 */
export async function failsWith(
  expected: Partial<ProviderErrorDetails>,
  adapter: Pick<ModelAdapter, 'provider' | 'model'>,
  work: Promise<unknown>,
): Promise<ProviderError> {
  const error = await work.then(
    () => assert.fail(`expected a ProviderError (${JSON.stringify(expected)}), but the call succeeded`),
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof ProviderError)) throw error;
  const found = Object.fromEntries(
    Object.keys(expected).map(name => [name, error[name as keyof ProviderErrorDetails]]),
  );
  assert.deepEqual(found, expected, `another error than expected: ${error.message}`);
  assert.deepEqual([error.provider, error.model], [adapter.provider, adapter.model]);
  assert.ok(error.message.includes(adapter.model), `the message must name the model: ${error.message}`);
  assert.ok(
    !textsIn(error).some(text => text.includes(API_KEY)),
    `the key is in the error: ${error.message}`,
  );
  return error;
}

/** Every text that can be reached from a value, its own hidden members included. */
function textsIn(value: unknown, seen = new Set<unknown>()): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null || seen.has(value)) return [];
  seen.add(value);
  const own = Object.getOwnPropertyNames(value).flatMap(name => [
    name,
    ...textsIn(Reflect.get(value, name), seen),
  ]);
  return value instanceof Headers ? [...own, ...[...value].flat()] : own;
}

/** Fails when the promise is still pending after a few seconds. */
export async function soon<Value>(promise: Promise<Value>, what: string): Promise<Value> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new assert.AssertionError({ message: `${what}, but it never did` })),
    20_000,
  );
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
