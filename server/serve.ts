import { createServer, type IncomingMessage, type Server } from 'node:http';
import { createAdaptorServer, getRequestListener, type WebSocketServerLike } from '@hono/node-server';
import { WebSocketServer } from 'ws';
import type { RunsApp } from './app.ts';
import { urlOf } from './bind-address.ts';
import { SECURITY_HEADERS } from './guard-request.ts';
import { SOCKET_PATH } from './route-table.ts';

export type Serving = {
  url: string;
  port: number;
  /** Ends the streams and refuses new work, but keeps answering: `/readyz` with 503, `/healthz` with 200. */
  drain(): void;
  /** Stops accepting connections, ends the streams, and waits up to 2 s for requests in progress. */
  close(): Promise<void>;
};

const CLOSING_MS = 2_000;

/** More readers than Node's default, 511, may return at once; the system's own bound may be lower. */
const BACKLOG = 4_096;

const IDLE_CHECK_MS = 20;

/** Serves WebSocket routes too. `port` 0 picks a free port. Rejects with Node's error, such as `EADDRINUSE`. */
export async function serveRuns(
  app: RunsApp,
  { host, port }: { host: string; port: number },
): Promise<Serving> {
  const listener = getRequestListener(app.fetch, {
    overrideGlobalObjects: false,
    errorHandler: () => new Response(null, { status: 400, headers: SECURITY_HEADERS }),
  });
  const sockets = new WebSocketServer({
    noServer: true,
    maxPayload: app.bodyBytes,
    perMessageDeflate: false,
  });
  const options = { shouldUpgradeCallback: isWebSocket };
  const server = createServer(options, (incoming, outgoing) => void listener(incoming, outgoing));
  createAdaptorServer({
    fetch: app.fetch,
    createServer: () => server,
    websocket: { server: sockets as WebSocketServerLike },
  });
  await listen(server, host.replace(/^\[(.*)\]$/, '$1'), port);
  const address = server.address();
  const bound = typeof address === 'object' && address !== null ? address.port : port;
  return { url: urlOf(host, bound), port: bound, drain: () => app.close(), close: () => close(server, app) };
}

/** Any other request for an upgrade is answered as if it asked for none. */
function isWebSocket({ method, url = '', headers }: IncomingMessage): boolean {
  return (
    method === 'GET' &&
    headers.upgrade?.toLowerCase() === 'websocket' &&
    URL.parse(url, 'http://localhost')?.pathname === SOCKET_PATH
  );
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port, host, backlog: BACKLOG }, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

async function close(server: Server, app: RunsApp): Promise<void> {
  const closed = new Promise<void>(resolve => server.close(() => resolve()));
  app.close();
  const closeIdle = setInterval(() => server.closeIdleConnections(), IDLE_CHECK_MS);
  const force = setTimeout(() => server.closeAllConnections(), CLOSING_MS);
  await closed;
  clearInterval(closeIdle);
  clearTimeout(force);
}
