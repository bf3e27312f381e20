import type { MiddlewareHandler } from 'hono';
import { ApiError } from '../error-envelope.ts';
import { findRoute, type RouteTable } from '../route.ts';
import type { RunsEnv } from '../runs-env.ts';

/** When to try again after too many streams, in ms. */
const BUSY_MS = 2_000;

/** Streams that are no server-sent events forbid proxies to hold them back. */
export function isStream({ headers }: Response): boolean {
  return (
    headers.get('content-type')?.startsWith('text/event-stream') === true ||
    headers.get('x-accel-buffering') === 'no'
  );
}

/** Streams are counted by their sockets. A stream that answers a HEAD request has no reader: it is cancelled. */
export function limitStreams(most: number, routes: RouteTable): MiddlewareHandler<RunsEnv> {
  let open = 0;
  return async (c, next) => {
    const { streams } = findRoute(c, routes) ?? {};
    const mayStream = streams === true || (streams === 'asked' && c.req.query('stream') === 'true');
    if (mayStream && open >= most)
      throw new ApiError('rate-limit-exceeded', 'The server has too many open streams. Retry later.', {
        retryAfterMs: BUSY_MS,
      });
    await next();
    const outgoing = c.env?.outgoing;
    if (!isStream(c.res)) return;
    if (c.req.method === 'HEAD') await c.res.body?.cancel();
    if (outgoing === undefined || outgoing.closed) return;
    open += 1;
    outgoing.once('close', () => {
      open -= 1;
    });
  };
}
