import type { MiddlewareHandler } from 'hono';
import { messageOf } from '../../protocol/error.ts';
import { readLabels } from '../../protocol/listing/label.ts';
import { ApiError } from '../error-envelope.ts';
import type { RunsEnv } from '../runs-env.ts';
import { ANYONE, type Area, type Authorize, type Caller, ROLES } from './caller.ts';
import { assertMay } from './gate.ts';

/** Sets the caller of a request to an area, and checks what the caller's role may do. */
export function authorizeWith(area: Area, authorize: Authorize = () => ANYONE): MiddlewareHandler<RunsEnv> {
  return async (c, next) => {
    const caller = await authorize(c.req.raw);
    if (caller === null) throw new ApiError('unauthorized', 'The request has no valid credentials.');
    assertCaller(caller);
    c.set('caller', caller);
    assertMay(c, caller, area);
    await next();
  };
}

/** Throws a `TypeError` for an invalid caller: a bug in the server's own code, which is logged. */
function assertCaller(value: Caller): void {
  try {
    readLabels(value.labels);
    if (typeof value.name === 'string' && value.name !== '' && ROLES.includes(value.role)) return;
  } catch (error) {
    throw new TypeError(`authorize must return { name, role, labels }: ${messageOf(error)}`);
  }
  throw new TypeError(
    `authorize must return { name, role, labels } with a name and one of the roles ${ROLES.join(', ')}, or null.`,
  );
}
