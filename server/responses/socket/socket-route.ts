// server/responses/socket: responses over a WebSocket.

import { upgradeWebSocket, type WebSocketLike } from '@hono/node-server';
import type { Context, MiddlewareHandler } from 'hono';
import type { Host } from '../../../engine/host/host.ts';
import type { RunsEnv } from '../../runs-env.ts';
import { ResponsesError } from '../api-error.ts';
import type { ResponsesService } from '../responses-service.ts';
import { ResponseSocket, type Socket } from './response-socket.ts';

/**
 * Upgrades a request to a connection for responses. It has passed the checks of every request. Throws a
 * `ResponsesError` with status 429 when as many connections are open as the server may have streams.
 */
export function socketRoute(options: {
  service: ResponsesService;
  host: Host;
  log(line: string): void;
}): MiddlewareHandler<RunsEnv> {
  let open = 0;
  return upgradeWebSocket((c: Context<RunsEnv>) => {
    const { closing } = options.service;
    closing.throwIfAborted();
    if (open >= options.service.admission.limits.openStreams)
      throw new ResponsesError('Too many connections are open. Close one, or wait.', {
        status: 429,
        type: 'rate_limit_error',
        code: 'websocket_connection_limit_reached',
      });
    let socket: ResponseSocket;
    return {
      onOpen(_event, { raw }) {
        if (!isSocket(raw)) throw new TypeError('expected a socket of the package ws');
        open += 1;
        const ended = c.get('sessionEnded');
        socket = new ResponseSocket(raw, {
          ...options,
          closing: ended === undefined ? closing : AbortSignal.any([closing, ended]),
          caller: c.get('caller'),
          inRequest: c.get('inRequest'),
        });
      },
      onMessage: ({ data }) => socket.receive(data),
      onClose: () => {
        open -= 1;
      },
    };
  });
}

/** Whether a socket can ping, as those of `serveRuns` can. */
function isSocket(raw: WebSocketLike | undefined): raw is WebSocketLike & Socket {
  return raw !== undefined && 'ping' in raw && 'terminate' in raw;
}
