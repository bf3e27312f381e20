import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { JsonObject } from '../../protocol/json.ts';

export type Answer = {
  status?: number;
  headers?: Record<string, string>;
  /** Written one after another. */
  chunks: readonly (string | Uint8Array)[];
  /** Cuts the connection instead of ending the response. */
  cut?: boolean;
  /** What the end of the response waits for. */
  end?: Promise<unknown>;
};

export type SeenRequest = { path: string; headers: IncomingHttpHeaders; body: JsonObject };

export type ReplayServer = AsyncDisposable & {
  baseURL: string;
  requests: SeenRequest[];
  /** How many connections were opened. */
  connections(): number;
  /** What the next requests are answered with; the last answer stays. */
  answer(...answers: Answer[]): void;
};

/** A provider on 127.0.0.1 that gives the answers it was told to give. */
export async function startReplayServer(): Promise<ReplayServer> {
  let answers: Answer[] = [];
  let connections = 0;
  const requests: SeenRequest[] = [];
  const server = createServer(async (request, response) => {
    const body: Buffer[] = [];
    for await (const chunk of request) body.push(chunk);
    requests.push({
      path: request.url ?? '',
      headers: request.headers,
      body: JSON.parse(Buffer.concat(body).toString('utf8') || '{}'),
    });
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    await write(response, answer ?? { status: 500, chunks: ['no answer was given'] });
  });
  server.on('connection', () => {
    connections += 1;
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    baseURL: `http://127.0.0.1:${port}/v1`,
    requests,
    connections: () => connections,
    answer: (...next) => {
      answers = next;
      requests.length = 0;
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise(resolve => server.close(resolve));
    },
  };
}

async function write(response: ServerResponse, { status, headers, chunks, cut, end }: Answer): Promise<void> {
  response.writeHead(status ?? 200, headers ?? { 'content-type': 'text/event-stream' });
  for (const chunk of chunks) await new Promise(resolve => response.write(chunk, resolve));
  await end;
  if (cut) response.destroy();
  else response.end();
}

/** An SSE body of Responses events. */
export function sse(...events: JsonObject[]): string {
  return events.map(event => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('');
}

/** A `fetch` whose response bodies come in the pieces that `split` makes of each chunk. */
export function splittingFetch(split: (bytes: Uint8Array) => Iterable<Uint8Array>): typeof fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    const bytes = new Uint8Array(await response.arrayBuffer());
    const pieces = split(bytes)[Symbol.iterator]();
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        const piece = pieces.next();
        if (piece.done) controller.close();
        else controller.enqueue(piece.value);
      },
    });
    return new Response(body, { status: response.status, headers: response.headers });
  };
}
