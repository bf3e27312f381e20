import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export type HostileProvider = {
  baseURL: string;
  /** Every request received, as text: its request line, headers and body. */
  seen: string[];
  /** Sets the reply to later requests; `nth` counts them from 0. */
  answer(reply: Reply): void;
  close(): Promise<void>;
};

export type Reply = (response: ServerResponse, nth: number, url: string) => void;

/** A provider on its own port, and so with its own origin, that replies as configured. */
export async function startHostileProvider(
  reply: Reply = response => response.end(),
): Promise<HostileProvider> {
  const seen: string[] = [];
  let current = reply;
  let count = 0;
  const server = createServer(async (request, response) => {
    response.on('error', () => {});
    let body = '';
    for await (const chunk of request) body += chunk;
    seen.push(`${request.method} ${request.url} ${JSON.stringify(request.headers)} ${body}`);
    current(response, count, request.url ?? '');
    count += 1;
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    baseURL: `http://127.0.0.1:${port}`,
    seen,
    answer: next => {
      current = next;
      count = 0;
      seen.length = 0;
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise(resolve => server.close(resolve));
    },
  };
}

/** A complete body, JSON by default. */
export function whole(body: string | Uint8Array, status = 200, type = 'application/json'): Reply {
  return response => response.writeHead(status, { 'content-type': type }).end(body);
}

/** The same chunk repeated forever: as fast as the client reads, or once every `everyMs`. */
export function endlessly(piece: string, type: string, everyMs?: number): Reply {
  return response => {
    response.writeHead(200, { 'content-type': type });
    if (everyMs !== undefined) {
      const timer = setInterval(() => response.write(piece), everyMs);
      response.on('close', () => clearInterval(timer));
      return;
    }
    const pour = () => {
      while (!response.destroyed) if (!response.write(piece)) break;
    };
    response.on('drain', pour);
    pour();
  };
}
