/// <reference lib="esnext.disposable" preserve="true" />

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { JsonObject } from '../../protocol/json.ts';
import { type NamesOf, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';

/** The response of a replay to a request. */
export type ReplayedAnswer = {
  /** Default: 200. */
  status?: number;
  /** Default: the content type of server-sent events. */
  headers?: Record<string, string>;
  /** The body, sent chunk by chunk. */
  chunks: readonly (string | Uint8Array)[];
  /** The response ends only after this promise has settled. */
  end?: Promise<unknown>;
  /** Whether to cut the connection instead of ending the response. */
  cut?: boolean;
};

const NAMES: NamesOf<ReplayedAnswer> = { status: true, headers: true, chunks: true, end: true, cut: true };

/** A request that a replay received. */
export type SeenRequest = {
  /** The path with the query. */
  path: string;
  /** The headers by their lower-case names. */
  headers: Record<string, string>;
  /** The JSON body; `{}` if there was none. */
  body: JsonObject;
  /** Resolves when all chunks of the answer have been sent. */
  sent: Promise<void>;
  /** Resolves when the answer has ended: read to its end, or abandoned by the client. */
  closed: Promise<void>;
};

export const SSE_HEADERS: Record<string, string> = { 'content-type': 'text/event-stream' };

/** Returns a function that gives the answers in turn, the last one again and again, or a status of 500. */
function queueOf(answers: readonly ReplayedAnswer[]): () => ReplayedAnswer {
  for (const answer of answers) refuseUnknownOptions('an answer', answer, NAMES, 'input-invalid');
  let at = 0;
  const nothing = { status: 500, headers: { 'content-type': 'text/plain' }, chunks: ['no answer was given'] };
  return () => answers[Math.min(at++, answers.length - 1)] ?? nothing;
}

/** A replayed `fetch` and the requests it received. */
export type ReplayFetch = {
  fetch: typeof fetch;
  /** The requests in order. */
  requests: SeenRequest[];
};

/**
 * Creates a `fetch` that returns the given answers without a socket, each chunk as one piece of the body. The
 * last answer is repeated. An abort ends the call and its body, as with a real `fetch`.
 *
 * @example
 * const { fetch, requests } = replayFetch({ chunks: oneByOne(recording) });
 */
export function replayFetch(...answers: readonly ReplayedAnswer[]): ReplayFetch {
  const next = queueOf(answers);
  const requests: SeenRequest[] = [];
  const replay: typeof fetch = async (input, init) => {
    const signal = init?.signal ?? (input instanceof Request ? input.signal : undefined);
    signal?.throwIfAborted();
    const answer = next();
    const sent = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<void>();
    requests.push({ ...(await read(input, init)), sent: sent.promise, closed: closed.promise });
    const body = bodyOf(answer, signal, { sent: sent.resolve, closed: closed.resolve });
    return new Response(body, { status: answer.status ?? 200, headers: answer.headers ?? SSE_HEADERS });
  };
  return { fetch: replay, requests };
}

async function read(
  input: Parameters<typeof fetch>[0],
  init: RequestInit | undefined,
): Promise<Pick<SeenRequest, 'path' | 'headers' | 'body'>> {
  const { pathname, search } = new URL(input instanceof Request ? input.url : String(input));
  const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : {}));
  const body = typeof init?.body === 'string' ? init.body : await new Request(input, init).text();
  return {
    path: `${pathname}${search}`,
    headers: Object.fromEntries(headers),
    body: JSON.parse(body || '{}'),
  };
}

function bodyOf(
  { chunks, cut, end }: ReplayedAnswer,
  signal: AbortSignal | null | undefined,
  { sent, closed }: { sent: () => void; closed: () => void },
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let next = 0;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      const abort = () => {
        closed();
        controller.error(signal?.reason);
      };
      signal?.addEventListener('abort', abort, { once: true });
    },
    async pull(controller) {
      const chunk = chunks[next++];
      if (chunk !== undefined) {
        controller.enqueue(typeof chunk === 'string' ? encoder.encode(chunk) : chunk);
        return;
      }
      sent();
      if (end) await end;
      closed();
      if (signal?.aborted) return;
      if (cut) controller.error(new TypeError('terminated'));
      else controller.close();
    },
    cancel: closed,
  });
}

/** A server that replays answers. Dispose of it to close it. */
export type ReplayServer = AsyncDisposable & {
  /** `http://127.0.0.1:PORT`, followed by the path that the server was started with. */
  baseURL: string;
  requests: SeenRequest[];
  /** Resolves with the first request since the last `answer`. */
  asked(): Promise<SeenRequest>;
  /** Returns the number of connections opened so far. */
  connections(): number;
  /** Sets the answers to the next requests; the last one is repeated. */
  answer(...answers: readonly ReplayedAnswer[]): void;
};

/**
 * Starts a server on 127.0.0.1 that gives prepared answers over real sockets.
 *
 * @example
 * await using server = await startReplayServer();
 * server.answer({ headers: { 'content-type': 'application/json' }, chunks: [recording] });
 */
export async function startReplayServer(options: { path?: string } = {}): Promise<ReplayServer> {
  refuseUnknownOptions('startReplayServer', options, { path: true }, 'input-invalid');
  const { path = '' } = options;
  const requests: SeenRequest[] = [];
  let nextAnswer = queueOf([]);
  let first = Promise.withResolvers<SeenRequest>();
  let connections = 0;
  const reply = async (request: IncomingMessage, response: ServerResponse) => {
    const { seen, sent } = await receive(request, response);
    requests.push(seen);
    first.resolve(seen);
    await write(response, nextAnswer(), sent);
  };
  const server = createServer((request, response) => {
    reply(request, response).catch(() => response.destroy());
  });
  server.on('connection', () => {
    connections += 1;
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    baseURL: `http://127.0.0.1:${port}${path}`,
    requests,
    asked: () => first.promise,
    connections: () => connections,
    answer: (...next) => {
      nextAnswer = queueOf(next);
      requests.length = 0;
      first = Promise.withResolvers();
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise(resolve => server.close(resolve));
    },
  };
}

async function receive(
  request: IncomingMessage,
  response: ServerResponse,
): Promise<{ seen: SeenRequest; sent: () => void }> {
  const body: Buffer[] = [];
  for await (const chunk of request) body.push(chunk);
  const sent = Promise.withResolvers<void>();
  const seen = {
    path: request.url ?? '',
    headers: Object.fromEntries(
      Object.entries(request.headers).map(([name, value]) => [name, String(value ?? '')]),
    ),
    body: JSON.parse(Buffer.concat(body).toString('utf8') || '{}'),
    sent: sent.promise,
    closed: new Promise<void>(resolve => response.on('close', resolve)),
  };
  return { seen, sent: sent.resolve };
}

async function write(
  response: ServerResponse,
  { status, headers, chunks, cut, end }: ReplayedAnswer,
  sent: () => void,
): Promise<void> {
  response.writeHead(status ?? 200, headers ?? SSE_HEADERS);
  response.flushHeaders();
  for (const chunk of chunks) await new Promise(resolve => response.write(chunk, resolve));
  sent();
  await end;
  if (cut) response.destroy();
  else response.end();
}

/** Splits the bytes at the positions `cuts`, given in any order. Empty pieces are omitted. */
export function splitAt(bytes: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const ends = [...cuts, bytes.length].toSorted((a, b) => a - b);
  return ends.map((end, at) => bytes.subarray(ends[at - 1] ?? 0, end)).filter(piece => piece.length > 0);
}

/** Splits the bytes into pieces of one byte. */
export function eachInTurn(bytes: Uint8Array): Uint8Array[] {
  return Array.from(bytes, (_, at) => bytes.subarray(at, at + 1));
}

/** Yields every split of the bytes into two pieces. */
export function* inTwoEverywhere(bytes: Uint8Array): Generator<Uint8Array[], void> {
  for (let at = 1; at < bytes.length; at += 1) yield splitAt(bytes, [at]);
}

/** Yields `length` splits into pieces of that length, which together cut every position between two bytes once. */
export function* inPiecesOf(bytes: Uint8Array, length: number): Generator<Uint8Array[], void> {
  for (let first = 1; first <= Math.min(length, bytes.length - 1); first += 1) {
    const cuts = Array.from(
      { length: Math.ceil((bytes.length - first) / length) },
      (_, at) => first + at * length,
    );
    yield splitAt(bytes, cuts);
  }
}

/** Yields `times` random splits of the bytes into up to 13 pieces. The same seed gives the same splits. */
export function* atRandom(
  bytes: Uint8Array,
  options: { seed: number; times: number },
): Generator<Uint8Array[], void> {
  refuseUnknownOptions('atRandom', options, { seed: true, times: true }, 'input-invalid');
  const { seed, times } = options;
  const random = randomNumbers(seed);
  for (let time = 0; time < times; time += 1) {
    const cuts = Array.from({ length: 1 + (time % 12) }, () => Math.floor(random() * bytes.length));
    yield splitAt(bytes, cuts);
  }
}

/** Returns a generator of numbers from 0 to below 1. The same seed gives the same numbers (mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
