import type { Context, Hono } from 'hono';
import { EngineError, messageOf } from '../protocol/error.ts';
import { ApiError, describeError } from './error-envelope.ts';
import type { Area, RouteTable } from './route.ts';
import type { RunsEnv } from './runs-env.ts';

/** An API of this server; of several prefixes the first wins. `paths` are the tops of its `routes`. */
export type MountedApi = {
  prefix: string;
  paths: readonly string[];
  area: Area;
  routes: RouteTable;
  add(app: Hono<RunsEnv>): void;
  answerError(c: Context<RunsEnv>, error: Error): Response;
  close?(): void;
};

/** The errors of a store that may answer again soon. A command is sent again with its `requestId`. */
const PASSING: ReadonlySet<string> = new Set([
  'store-unavailable',
  'store-locked',
  'store-full',
  'store-reply-lost',
]);

const STORE_AWAY_S = 5;

/** The headers of an error, which all APIs share, and a line in the log for a request that broke off. */
export function prepareError(c: Context<RunsEnv>, error: Error, log: (line: string) => void): void {
  if (describeError(error).status === 401) c.header('WWW-Authenticate', 'Bearer');
  if (error instanceof EngineError && PASSING.has(error.code)) c.header('Retry-After', String(STORE_AWAY_S));
  if (!(error instanceof ApiError)) return;
  if (error.code === 'request-aborted') log(`Request ${c.get('requestId')}: ${error.message}`);
  if (error.retryAfterMs !== undefined)
    c.header('Retry-After', String(Math.ceil(error.retryAfterMs / 1_000)));
}

export function answerRunsError(c: Context<RunsEnv>, error: Error, log: (line: string) => void): Response {
  const { status, envelope } = describeError(error);
  if (envelope.error.code === 'internal')
    log(`Request ${c.get('requestId')} (${c.req.method}) failed: ${error.stack ?? messageOf(error)}`);
  if (status === 413) c.header('Connection', 'close');
  return c.json(envelope, status);
}
