import type { Context, MiddlewareHandler } from 'hono';
import { type Authorize, type Caller, callerOf } from '../../access/caller.ts';
import { describeRole, may } from '../../access/role.ts';
import type { Labels } from '../../protocol/listing/label.ts';
import { ApiError } from '../error-envelope.ts';
import type { MountedApi } from '../mounted-api.ts';
import { type Area, findRoute, type RouteTable, rightsFor } from '../route.ts';
import type { RunsEnv } from '../runs-env.ts';

export function authorizeWith(
  { routes, area }: Pick<MountedApi, 'routes' | 'area'>,
  authorize?: Authorize,
): MiddlewareHandler<RunsEnv> {
  return async (c, next) => {
    const caller = await callerOf(c.req.raw, authorize, area === 'v1' ? 'client' : 'requester');
    if (caller === null) throw new ApiError('unauthorized', 'The request has no valid credentials.');
    c.set('caller', caller);
    assertMay(c, caller, routes, area);
    await next();
  };
}

/** Lists of commands are also checked one by one. */
export function assertMay(c: Context, caller: Caller, routes: RouteTable, area: Area): void {
  const rights = rightsFor(findRoute(c, routes), c.req.method, area);
  if (!rights.some(right => may(caller, right))) throw forbidden(caller);
}

export function forbidden(caller: Caller): ApiError {
  return new ApiError('forbidden', describeRole(caller));
}

/** The labels and the caller's. Throws `forbidden` where they contradict each other. */
export function withLabelsOf({ labels: own }: Caller, labels: Labels): Labels {
  const other = Object.keys(own).find(name => Object.hasOwn(labels, name) && labels[name] !== own[name]);
  if (other === undefined) return { ...labels, ...own };
  throw new ApiError('forbidden', `Your runs have another value for the label "${other}". Leave it out.`);
}

const BUSY_MS = 2_000;

/** Streams other than server-sent events tell proxies not to buffer them. */
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
