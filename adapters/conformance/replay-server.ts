import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Answer, Answers, type SeenRequest, SSE_HEADERS } from './answer.ts';

export type ReplayServer = AsyncDisposable & {
  /** `http://127.0.0.1:PORT`, and the path it was started with behind it. */
  baseURL: string;
  /** The requests since the last `answer`. */
  requests: SeenRequest[];
  /** The first request since the last `answer`, as soon as it comes. */
  asked(): Promise<SeenRequest>;
  /** How many connections were opened. */
  connections(): number;
  /** What the next requests are answered with; the last answer stays. */
  answer(...answers: readonly Answer[]): void;
};

/**
 * A provider on 127.0.0.1 that gives the answers it is told to give, over real sockets.
 *
 * @example
 * await using server = await startReplayServer();
 * server.answer({ headers: { 'content-type': 'application/json' }, chunks: [recording] });
 */
export async function startReplayServer({ path = '' }: { path?: string } = {}): Promise<ReplayServer> {
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
