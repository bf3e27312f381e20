/**
 * The stand-in: a model provider on 127.0.0.1 that needs no key, for demos and tests. Its "model" is a set of
 * fixed rules that play the documentation steward of `npm start`.
 *
 * - `rules.ts` decides the next turn from the transcript; `answers.ts` writes its texts; `history.ts`, `listing.ts`,
 *   `pass.ts` and `paths.ts` read the transcript and the tools' results.
 * - `responder.ts`, `request.ts` and `events.ts` implement OpenAI's Responses API, strictly validated.
 * - `wire/` adds the wire formats of the other providers: this file serves all of them.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { jsonIn } from '../../../adapters/turn/json-access.ts';
import { type JsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import { listEvents } from '../events.ts';
import { readHistory } from '../history.ts';
import { findUnpaired } from '../request.ts';
import { createResponder } from '../responder.ts';
import { decideTurn } from '../rules.ts';
import { anthropicMessages } from './anthropic.ts';
import { type ChatStyle, chat } from './chat.ts';
import { missingFrom } from './demands.ts';
import { geminiContent } from './gemini.ts';
import { harmonyCompletions, readHarmony } from './harmony.ts';
import { interactions } from './interactions.ts';
import { ollamaChat } from './ollama.ts';
import {
  parseBody,
  readAnthropic,
  readChat,
  readGemini,
  readInteractions,
  readOllama,
  type StandInRequest,
} from './read-requests.ts';
import { type Encoder, event, seeded, type WrittenTurn } from './turn.ts';

export type StandIn = AsyncDisposable & {
  /** The origin. A provider's own path may have any prefix, such as `/azure/openai/v1`. */
  root: string;
  /** The requests so far. */
  requests: { path: string; body: JsonObject }[];
};

type Dialect = {
  read: (body: JsonObject) => StandInRequest;
  encoder: (path: string) => Encoder;
  streams: (path: string, body: JsonObject) => boolean;
  /** Creates the id of a call; absent if the dialect has none. */
  newId?: (count: number) => string;
};

const isStreamRequested = (_: string, { stream }: JsonObject) => stream === true;

const DIALECTS: [path: RegExp, dialect: Dialect][] = [
  [
    /\/chat\/completions$/,
    {
      read: readChat,
      encoder: path => chat(CHAT_STYLES[path.split('/')[1] ?? ''] ?? {}),
      streams: isStreamRequested,
      newId: count => `call${String(count).padStart(5, '0')}`,
    },
  ],
  [
    /\/v1\/completions$/,
    { read: readHarmony, encoder: () => harmonyCompletions, streams: isStreamRequested },
  ],
  [
    /\/v1\/messages$/,
    {
      read: readAnthropic,
      encoder: () => anthropicMessages,
      streams: isStreamRequested,
      newId: count => `toolu_${count}`,
    },
  ],
  [
    /\/v1beta\/models\/[^/]+:(?:streamGenerateContent|generateContent)$/,
    { read: readGemini, encoder: () => geminiContent, streams: path => path.includes(':stream') },
  ],
  [
    /\/v1beta\/interactions$/,
    {
      read: readInteractions,
      encoder: () => interactions,
      streams: isStreamRequested,
      newId: count => `fc${count}`,
    },
  ],
  [
    /\/api\/chat$/,
    { read: readOllama, encoder: () => ollamaChat, streams: (_, { stream }) => stream !== false },
  ],
];

/** The variants of Chat Completions, by the first part of the path. */
const CHAT_STYLES: Readonly<Record<string, Partial<ChatStyle>>> = {
  groq: { reasoning: 'reasoning', wholeCalls: true, usage: 'x_groq' },
  mistral: { reasoning: 'content', wholeCalls: true, usage: 'beside' },
  xai: { wholeCalls: true, outputWithoutReasoning: true },
  openrouter: { reasoning: 'reasoning_details' },
  ollama: { reasoning: 'reasoning', indexes: 'all-0', wholeCalls: true },
};

/**
 * Starts the stand-in with the wire formats of all providers. Each turn follows from the request's history alone.
 * Like the real providers, it refuses a request without a key header, a call without a result or a result without a
 * call, and a history that lacks data the provider requires back (see demands.ts). A turn is streamed in the same
 * pieces each time, `paceMs` ms apart. The last 1000 stored responses can be continued.
 *
 * @example
 * await using standIn = await startStandIn();
 * const model = anthropic({ model: 'stand-in', apiKey: 'any', baseURL: `${standIn.root}/anthropic` });
 */
export async function startStandIn({ paceMs = 0 }: { paceMs?: number } = {}): Promise<StandIn> {
  const requests: StandIn['requests'] = [];
  let ids = 0;
  const answerResponses = createResponder(prefix => `${prefix}_${ids++}`);

  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => {
      if (response.headersSent) response.destroy();
      else send(response, 500, { error: { message: `The stand-in failed: ${String(error)}` } });
    });
  });

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = await textOf(request);
    const body = parseBody(text);
    const path = (request.url ?? '').replace(/\?.*/, '');
    requests.push({ path, body });
    if (!hasKey(request, path))
      return send(response, 401, { error: { message: 'missing API key', code: 'invalid_api_key' } });
    if (path.endsWith('/responses')) return respond(response, jsonIn(text));
    const [, dialect] = DIALECTS.find(([pattern]) => pattern.test(path)) ?? [];
    if (dialect === undefined) return send(response, 404, { error: { message: `unknown path: ${path}` } });
    const read = dialect.read(body);
    const problem = findUnpaired(read.items)?.message ?? missingFrom(body, path.split('/')[1] ?? '');
    if (problem !== undefined) return send(response, 400, { error: { message: problem } });
    const turn = writtenTurn(read, () => dialect.newId?.(ids++));
    const encoder = dialect.encoder(path);
    if (!dialect.streams(path, body)) return send(response, 200, encoder.whole(turn));
    await stream(response, encoder.contentType, encoder.stream(turn, seeded(1)), paceMs);
  }

  async function respond(response: ServerResponse, body: JsonValue | undefined): Promise<void> {
    const answered = answerResponses(body);
    if ('problem' in answered)
      return send(response, 400, { error: { ...answered.problem, type: 'invalid_request_error' } });
    answered.remember();
    if (!answered.streamed) return send(response, 200, answered.response as JsonObject);
    const events = [...listEvents(answered.response)];
    const blocks = events.map(data => event(data as JsonObject, data.type));
    return stream(response, 'text/event-stream', blocks, paceMs);
  }

  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    root: `http://127.0.0.1:${port}`,
    requests,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise(resolve => server.close(resolve));
    },
  };
}

/** Every turn has reasoning, so that clients must return or omit it as the provider requires. */
function writtenTurn(request: StandInRequest, newId: () => string | undefined): WrittenTurn {
  const { text, calls } = decideTurn({ ...request, history: readHistory(request.items) });
  return {
    model: 'stand-in',
    reasoning: 'I follow my rules.',
    text,
    calls: calls.map(({ name, input }) => {
      const id = newId();
      return { ...omitUndefined({ id }), name, arguments: JSON.stringify(input) };
    }),
    finish: 'stop',
    usage: { input: 100, output: 20, cached: 0, reasoning: 5 },
  };
}

const KEY_HEADERS = ['authorization', 'x-api-key', 'x-goog-api-key', 'api-key'];

function hasKey({ headers }: IncomingMessage, path: string): boolean {
  return path.endsWith('/api/chat') || KEY_HEADERS.some(name => headers[name] !== undefined);
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

function send(response: ServerResponse, status: number, body: JsonValue): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}

async function stream(
  response: ServerResponse,
  type: string,
  blocks: readonly string[],
  paceMs: number,
): Promise<void> {
  response.writeHead(200, { 'content-type': type });
  response.flushHeaders();
  for (const block of blocks) {
    if (paceMs > 0) await wait(paceMs);
    if (response.destroyed) return;
    response.write(block);
  }
  response.end();
}
