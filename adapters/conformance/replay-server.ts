/// <reference lib="esnext.disposable" preserve="true" />

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import { type Answer, Answers, type SeenRequest, SSE_HEADERS } from './answer.ts';

/** A server that replays answers. Dispose of it to close it. */
export type ReplayServer = AsyncDisposable & {
  /** `http://127.0.0.1:PORT`, followed by the path that the server was started with. */
  baseURL: string;
  /** The requests since the last `answer`. */
  requests: SeenRequest[];
  /** Resolves with the first request since the last `answer`. */
  asked(): Promise<SeenRequest>;
  /** Returns the number of connections opened so far. */
  connections(): number;
  /** Sets the answers to the next requests; the last one is repeated. */
  answer(...answers: readonly Answer[]): void;
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
  let answers = new Answers([]);
  let first = Promise.withResolvers<SeenRequest>();
  let connections = 0;
  const reply = async (request: IncomingMessage, response: ServerResponse) => {
    const { seen, sent } = await receive(request, response);
    requests.push(seen);
    first.resolve(seen);
    await write(response, answers.next(), sent);
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
      answers = new Answers(next);
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
  { status, headers, chunks, cut, end }: Answer,
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
