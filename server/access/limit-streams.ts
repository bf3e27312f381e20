import type { MiddlewareHandler } from 'hono';
import { ApiError } from '../error-envelope.ts';
import type { RunsEnv } from '../runs-env.ts';

/** When to try again after too many streams, in ms. */
const BUSY_MS = 2_000;

/**
 * Counts the open event streams. While `most` are open, throws `rate-limit-exceeded` for requests that could open
 * another: for events of runs, explorations, all that create something under `/v1`, and those to `/mcp` and `/a2a`. Streams are counted
 * by their sockets.
 */
export function limitStreams(most: number): MiddlewareHandler<RunsEnv> {
  let open = 0;
  return async (c, next) => {
    const { method, path } = c.req;
    const isGateway = /(^|\/)v1\//.test(path);
    const mayStream = isGateway
      ? method === 'POST' || c.req.query('stream') === 'true'
      : /\/(events|explore)$|(^|\/)mcp$|(^|\/)a2a\//.test(path);
    if (mayStream && open >= most)
      throw new ApiError('rate-limit-exceeded', 'The server has too many open streams. Retry later.', {
        retryAfterMs: BUSY_MS,
      });
    await next();
    const outgoing = c.env?.outgoing;
    const isStream = c.res.headers.get('content-type')?.startsWith('text/event-stream') === true;
    if (!isStream || outgoing === undefined || outgoing.closed) return;
    open += 1;
    outgoing.once('close', () => {
      open -= 1;
    });
  };
}
