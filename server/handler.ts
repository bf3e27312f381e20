/**
 * What all fronts do with a request: find its caller, check what the caller may do, bound its body, and answer errors in
 * the front's own words. The same `MountedApi` is behind a front's handler and behind its paths on `agentchart serve`.
 */
import { Hono, type MiddlewareHandler } from 'hono';
import type { Authorize } from '../access/caller.ts';
import { systemHost } from '../engine/host/host.ts';
import type { NamesOf } from '../protocol/options/refuse-unknown.ts';
import { authorizeWith, limitStreams } from './access/authorize.ts';
import { ApiError } from './error-envelope.ts';
import { type MountedApi, prepareError } from './mounted-api.ts';
import { BODY_LIMITS, type BodyLimits } from './read-body.ts';
import { logRequests } from './request-log.ts';
import { methodsAt } from './route.ts';
import type { RunsEnv } from './runs-env.ts';

/**
 * Answers requests, in any server that has web requests; never rejects. Mount it below any path, before parsers of bodies.
 * `close` ends its streams and its recovery of runs.
 */
export type Handler = ((request: Request) => Promise<Response>) & { close(): void };

/** Options of every handler. */
export type HandlerOptions = {
  /**
   * Authenticates a request: returns `{ name, role?, groups?, labels? }`, or `null` to answer 401. Without a role
   * it is a `requester`, who decides nothing (a `client` for `/v1`). The runs of a caller get its labels, and it finds only
   * runs that have them. Default: every request is an operator's, so mount the handler behind
   * your own checks.
   */
  authorize?: Authorize;
  /** The size limit of a request's body, in bytes. Default 32 MiB. */
  bodyBytes?: number;
  /** Receives one line per problem, for the operator; never a secret. Default: a warning of the process. */
  log?(line: string): void;
};

export const HANDLER_NAMES: NamesOf<HandlerOptions> = { authorize: true, bodyBytes: true, log: true };

export const BODY_BYTES = 32 * 1024 * 1024;
const OPEN_STREAMS = 1_000;

type AppOptions = {
  authorize: Authorize | undefined;
  limits: BodyLimits;
  log(line: string): void;
  openStreams?: number;
  /** Gives each request its id, for the log and for its sender. */
  first?: MiddlewareHandler<RunsEnv>;
  pathOf?(request: Request): string;
};

/**
 * One API with its checks on its own paths only, so that other routes can be mounted next to it.
 * @internal
 */
export function appOf(api: MountedApi, options: AppOptions): Hono<RunsEnv> {
  const { authorize, limits, log, openStreams = OPEN_STREAMS, pathOf } = options;
  const { first = logRequests(systemHost) } = options;
  const app = new Hono<RunsEnv>(pathOf && { getPath: pathOf });
  const streams = limitStreams(openStreams, api.routes);
  for (const path of api.paths) {
    app.use(`${path}/*`, first, authorizeWith(api, authorize), streams, async (c, next) => {
      c.header('Cache-Control', 'no-store');
      c.set('requestLimits', limits);
      await next();
    });
  }
  api.add(app);
  app.notFound(c => {
    const methods = methodsAt(c.req.path, api.routes);
    if (methods.length === 0)
      throw new ApiError('not-found', `There is no ${c.req.method} route at this path.`);
    c.header('Allow', methods.join(', '));
    throw new ApiError('method-not-allowed', `This path takes ${methods.join(' and ')}.`);
  });
  app.onError((error, c) => {
    prepareError(c, error, log);
    return api.answerError(c, error);
  });
  return app;
}

/**
 * The handler of APIs, of which the first that has a path answers. `pathOf`: the path of a request as if it was sent to
 * `agentchart serve`; by default what follows its mount.
 * @internal
 */
export function handlerOf(
  apis: readonly MountedApi[],
  { authorize, bodyBytes = BODY_BYTES }: HandlerOptions,
  { log, pathOf = belowMount(apis.flatMap(({ paths }) => paths)) }: Mount,
): Handler {
  const limits = { ...BODY_LIMITS, maxBytes: bodyBytes };
  const [first, ...rest] = apis.map(api => appOf(api, { authorize, limits, log, pathOf }));
  if (first === undefined) throw new TypeError('A handler needs an API.');
  for (const app of rest) first.route('/', app);
  return Object.assign(async (request: Request) => await first.fetch(request), {
    close() {
      for (const api of apis) api.close?.();
    },
  });
}
type Mount = { log(line: string): void; pathOf?(request: Request): string };

function belowMount(paths: readonly string[]): (request: Request) => string {
  const names = paths.map(path => path.replace(/[.]/g, '\\.')).join('|');
  const own = new RegExp(`(?:${names})(?:/.*)?$`);
  return request => {
    const { pathname } = new URL(request.url);
    return own.exec(pathname)?.[0] ?? pathname;
  };
}

export function segmentsOf(request: Request): string[] {
  return new URL(request.url).pathname.split('/').filter(segment => segment !== '');
}
