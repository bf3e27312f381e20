import type { Caller } from '../access/caller.ts';
import type { BodyLimits } from './read-body.ts';

/** Runs a request that comes as a message on a connection, and reports it. `work` returns its status. */
export type InRequest = (work: () => Promise<number>) => Promise<void>;

/** What routes use of Node's `ServerResponse`. Its types are not named: those who use the package may not have them. */
type Outgoing = {
  readonly closed: boolean;
  once(event: 'close', listener: () => void): unknown;
  destroy(): unknown;
};

/** Hono's environment of all routes. The bindings are empty without a socket, as in tests. */
export type RunsEnv = {
  Bindings: { outgoing?: Outgoing };
  Variables: {
    requestId: string;
    /** For the requests on an upgraded connection. */
    inRequest: InRequest;
    /** Set by the gate; on routes that need no token, possibly absent. */
    caller: Caller;
    /** Aborted when the session of the request ends, if it has one. */
    sessionEnded?: AbortSignal;
    requestLimits: BodyLimits;
  };
};
