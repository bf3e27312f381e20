import type { HttpBindings } from '@hono/node-server';
import type { Caller } from './access/caller.ts';
import type { BodyLimits } from './read-body.ts';

/** Hono's environment of all routes. The bindings are empty without a socket, as in tests. */
export type RunsEnv = {
  Bindings: Partial<HttpBindings>;
  Variables: {
    /** The `x-request-id` of the answer. */
    requestId: string;
    /** Set by the gate; on routes that need no token, possibly absent. */
    caller: Caller;
    /** The limits of bodies of requests to `/v1`. */
    requestLimits: BodyLimits;
  };
};
