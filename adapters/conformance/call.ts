import assert from 'node:assert/strict';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import { ProviderError, type ProviderErrorDetails } from '../../protocol/error.ts';
import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import type { ModelRequest, ModelTurn, TurnDelta } from '../../protocol/turn.ts';
import { type ReplayedAnswer, type ReplayFetch, replayFetch, SSE_HEADERS } from './replay.ts';

/** The API key of every call. No error may contain it. */
export const API_KEY = 'conformance-4f1d2c7b90ae';

/** An unreachable URL, for calls with a replayed `fetch`. */
const NOWHERE = 'http://provider.invalid';

/** Limits that no check exceeds by accident. */
export const WIDE: Omit<ConformanceCallOptions, 'baseURL'> = {
  apiKey: API_KEY,
  maxResponseBytes: 64 * 1024 * 1024,
  idleTimeoutMs: 60_000,
};

const HELLO: ModelRequest = {
  transcript: [{ type: 'message', role: 'user', content: [{ type: 'text', text: 'hello' }] }],
  tools: [],
  toolChoice: 'auto',
  settings: {},
};

export function requestFor(exchange: Exchange): ModelRequest {
  return exchange.request ?? HELLO;
}

export function bytesOf({ response }: Pick<Exchange, 'response'>): Uint8Array {
  return typeof response === 'string' ? new TextEncoder().encode(response) : response;
}

export function halfOf(exchange: Exchange): Uint8Array {
  const bytes = bytesOf(exchange);
  return bytes.subarray(0, Math.floor(bytes.length / 2));
}

export function answerOf(
  exchange: Exchange,
  chunks: ReplayedAnswer['chunks'] = [bytesOf(exchange)],
): ReplayedAnswer {
  const type = exchange.contentType ?? (exchange.streamed ? SSE_HEADERS['content-type'] : 'application/json');
  return { headers: { 'content-type': type ?? '' }, chunks };
}

export type ConformanceOutcome = { deltas: TurnDelta[]; turn: ModelTurn };

export async function call(
  adapter: ModelAdapter,
  exchange: Exchange,
  {
    request = requestFor(exchange),
    signal = new AbortController().signal,
  }: { request?: ModelRequest; signal?: AbortSignal } = {},
): Promise<ConformanceOutcome> {
  if (!exchange.streamed) return { deltas: [], turn: await adapter.generate(request, { signal }) };
  const deltas: TurnDelta[] = [];
  for await (const delta of adapter.stream(request, { signal })) deltas.push(delta);
  const last = deltas.pop();
  assert.ok(last?.type === 'turn', `a stream must end with a turn, not with ${last?.type ?? 'nothing'}`);
  return { deltas, turn: last.turn };
}

type Play = (exchange: Exchange, chunks?: ReplayedAnswer['chunks']) => Promise<ConformanceOutcome>;

export function player({ open }: AdapterUnderTest): Play & { adapter: ModelAdapter } {
  let replay = replayFetch();
  const adapter = open({ ...WIDE, baseURL: NOWHERE, fetch: (input, init) => replay.fetch(input, init) });
  const play: Play = (exchange, chunks) => {
    replay = replayFetch(answerOf(exchange, chunks));
    return call(adapter, exchange);
  };
  return Object.assign(play, { adapter });
}

export function play(subject: AdapterUnderTest, exchange: Exchange): Promise<ConformanceOutcome> {
  return player(subject)(exchange);
}

export function opened(
  { open }: AdapterUnderTest,
  answer: ReplayedAnswer,
  options: Partial<ConformanceCallOptions> = {},
): { adapter: ModelAdapter; requests: ReplayFetch['requests'] } {
  const { fetch, requests } = replayFetch(answer);
  return { adapter: open({ ...WIDE, baseURL: NOWHERE, fetch, ...options }), requests };
}

/** Asserts a `ProviderError` with these details that names provider and model, without the API key. */
export async function failsWith(
  expected: Partial<ProviderErrorDetails>,
  adapter: Pick<ModelAdapter, 'provider' | 'model'>,
  work: Promise<unknown>,
): Promise<void> {
  const error = await work.then(
    () => assert.fail(`expected a ProviderError (${JSON.stringify(expected)}), but the call succeeded`),
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof ProviderError)) throw error;
  const found = Object.fromEntries(
    Object.keys(expected).map(name => [name, error[name as keyof ProviderErrorDetails]]),
  );
  assert.deepEqual(found, expected, `not the expected error: ${error.message}`);
  assert.deepEqual([error.provider, error.model], [adapter.provider, adapter.model]);
  assert.ok(error.message.includes(adapter.model), `the message must name the model: ${error.message}`);
  const texts = deepTexts(error);
  assert.ok(!texts.some(text => text.includes(API_KEY)), `the error contains the API key: ${error.message}`);
}

/** Every text in a value, the names of members included, also of those that are not enumerable. */
export function deepTexts(value: unknown, seen = new Set<unknown>()): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null || seen.has(value)) return [];
  seen.add(value);
  const own = Object.getOwnPropertyNames(value).flatMap(name => [
    name,
    ...deepTexts(Reflect.get(value, name), seen),
  ]);
  return value instanceof Headers ? [...own, ...[...value].flat()] : own;
}

/** Returns the promise's value; rejects with `what` if it is still pending after 20 seconds. */
export async function soon<Value>(promise: Promise<Value>, what: string): Promise<Value> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new assert.AssertionError({ message: `${what}, but it did not within 20 s` })),
    20_000,
  );
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

export type ConformanceCallOptions = {
  /** The root URL of a simulated provider; the adapter appends its paths. */
  baseURL: string;
  /** Empty if the check calls the provider without a key. */
  apiKey: string;
  /** Absent if the check needs real sockets. */
  fetch?: typeof fetch;
  /** The maximum size of a response in bytes. */
  maxResponseBytes: number;
  /** The longest pause within a response in ms. */
  idleTimeoutMs: number;
};

/** One call and the provider's response, recorded or written by hand. */
export type Exchange = {
  /** Unique; part of the names of the checks. */
  name: string;
  /** Default: a single user message. */
  request?: ModelRequest;
  /** The full response body as received. */
  response: string | Uint8Array;
  /** Whether the response belongs to `stream`, else to `generate`. */
  streamed: boolean;
  /** Default: `text/event-stream` if streamed, else `application/json`. */
  contentType?: string;
  /** Members that the turn must have; other members can have any value. */
  expect?: Partial<ModelTurn>;
  /** The error with which the call must fail instead, such as an error in the middle of a stream. */
  fails?: Partial<ProviderErrorDetails>;
  /** Texts that the next request must contain unchanged, such as signatures and encrypted reasoning. */
  comesBack?: readonly string[];
  /** The name of an exchange with an equal turn, such as the same response without streaming. */
  sameTurnAs?: string;
};

/** An adapter and the exchanges to check it with. */
export type AdapterUnderTest = {
  /** Creates the adapter. Each check calls this at least once. */
  open(options: ConformanceCallOptions): ModelAdapter;
  /** At least one streamed and one complete response; some of them with calls. */
  exchanges: readonly Exchange[];
  /**
   * What the model reads of a body, in its order: instructions, tools and blocks of content, without settings. Default:
   * read from the members of the APIs of Anthropic, OpenAI and Google, or from a `prompt`.
   */
  contentOf?(body: JsonObject): readonly JsonValue[];
  /** Checks that do not apply to this provider: the reason, by the check's name. */
  except?: Readonly<Record<string, string>>;
};

/** One check. `run` rejects if the adapter fails it. */
export type AdapterCheck = { name: string; run(): Promise<void> };
