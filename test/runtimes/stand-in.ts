import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { objectsOf } from '../../adapters/turn/json-access.ts';
import { anthropicMessages } from '../../examples/stand-in/wire/anthropic.ts';
import { chat } from '../../examples/stand-in/wire/chat.ts';
import { geminiContent } from '../../examples/stand-in/wire/gemini.ts';
import {
  parseBody,
  readAnthropic,
  readChat,
  readGemini,
} from '../../examples/stand-in/wire/read-requests.ts';
import { responses } from '../../examples/stand-in/wire/responses.ts';
import { type Encoder, seeded, type WrittenTurn } from '../../examples/stand-in/wire/turn.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { ANSWER } from './program/outcome.ts';

/** A model provider with four APIs on one origin, which also serves the page that calls it. */
export type StandIn = AsyncDisposable & { origin: string };

type Api = { encoder: Encoder; read: (body: JsonObject) => readonly { type?: unknown }[] };

/** By the end of the path. `read` returns the items of a request, of which the stand-in counts the results. */
const APIS: readonly (readonly [path: RegExp, api: Api])[] = [
  [/\/responses$/, { encoder: responses(), read: ({ input }) => objectsOf(input) }],
  [/\/chat\/completions$/, { encoder: chat(), read: body => readChat(body).items }],
  [/\/messages$/, { encoder: anthropicMessages, read: body => readAnthropic(body).items }],
  [
    /:(?:streamGenerateContent|generateContent)$/,
    { encoder: geminiContent, read: body => readGemini(body).items },
  ],
];

/** Starts the stand-in on 127.0.0.1; `files` are served by their paths. */
export async function startStandIn(files: Readonly<Record<string, string>>): Promise<StandIn> {
  const server = createServer(async (request, response) => {
    const path = new URL(request.url ?? '', 'http://localhost').pathname;
    const file = files[path];
    if (file !== undefined) {
      const type = path.endsWith('.js') ? 'text/javascript' : 'text/html';
      return response.writeHead(200, { 'content-type': type }).end(file);
    }
    const [, api] = APIS.find(([pattern]) => pattern.test(path)) ?? [];
    if (api === undefined) return response.writeHead(404).end('{"error":{"message":"unknown path"}}');
    const body = parseBody(await text(request));
    const results = api.read(body).filter(({ type }) => type === 'function_call_output');
    const turn = decideTurn(results.length);
    if (!isStreamed(request, body)) {
      response.writeHead(200, { 'content-type': 'application/json' });
      return response.end(JSON.stringify(api.encoder.whole(turn)));
    }
    response.writeHead(200, { 'content-type': api.encoder.contentType });
    for (const block of api.encoder.stream(turn, seeded(1))) response.write(block);
    response.end();
  });
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise(done => server.close(done));
    },
  };
}

function isStreamed({ url = '' }: IncomingMessage, { stream }: JsonObject): boolean {
  return stream === true || url.includes(':streamGenerateContent');
}

/** The turn after so many results: two calls, then a gated one, then the answer. */
function decideTurn(results: number): WrittenTurn {
  const order = { orderId: 'A-1001' };
  const turns = [
    [callOf('find_order', order), callOf('find_customer', order)],
    [],
    [callOf('refund', { ...order, cents: 4200 })],
  ];
  const calls = turns[results] ?? [];
  return {
    model: 'stand-in',
    reasoning: 'I follow my script.',
    finish: 'stop',
    text: calls.length === 0 ? ANSWER : '',
    calls,
    usage: { input: 10, output: 5, cached: 0, reasoning: 2 },
  };
}

function callOf(name: string, input: JsonObject) {
  return { id: `call_${name}`, name, arguments: JSON.stringify(input) };
}
