import type { MiddlewareHandler } from 'hono';
import { type Authorize, callerOf } from '../../access/caller.ts';
import { ApiError } from '../error-envelope.ts';
import type { MountedApi } from '../mounted-api.ts';
import type { RunsEnv } from '../runs-env.ts';
import { assertMay } from './gate.ts';

/** Sets the caller of a request to an API, and checks what the caller's role may do. */
export function authorizeWith(
  { routes, area }: Pick<MountedApi, 'routes' | 'area'>,
  authorize?: Authorize,
): MiddlewareHandler<RunsEnv> {
  return async (c, next) => {
    const caller = await callerOf(c.req.raw, authorize);
    if (caller === null) throw new ApiError('unauthorized', 'The request has no valid credentials.');
    c.set('caller', caller);
    assertMay(c, caller, routes, area);
    await next();
  };
}
