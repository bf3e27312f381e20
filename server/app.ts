import { Hono, type MiddlewareHandler } from 'hono';
import { compress } from 'hono/compress';
import { cors } from 'hono/cors';
import type { Caller } from '../access/caller.ts';
import { type Host, systemHost } from '../engine/host/host.ts';
import type { TokensConfig } from './access/access-config.ts';
import { Admission } from './access/admission.ts';
import { limitStreams } from './access/authorize.ts';
import { Gate } from './access/gate.ts';

import type { AccessRecord } from './access/request-record.ts';
import { Sessions, SignInPace } from './access/sessions.ts';
import { Tokens } from './access/tokens.ts';
import { ApiError } from './error-envelope.ts';
import { guardOrigin, setSecurityHeaders } from './guard-request.ts';
import { RunMetrics } from './metrics/run-metrics.ts';
import type { WorkMetrics } from './metrics/work-metrics.ts';
import { type MountedApi, prepareError } from './mounted-api.ts';
import { addPage } from './page-routes.ts';
import { BODY_LIMITS } from './read-body.ts';
import { logRequests } from './request-log.ts';
import { mountRoutes, type RouteTable } from './route.ts';
import { OPEN_ROUTES, PAGE_ROUTES, SERVER_ROUTES } from './route-table.ts';
import { createRunsApi, type RunsApiOptions } from './runs/runs-api.ts';
import type { RunsEnv } from './runs-env.ts';
import { StoreProbe } from './store-probe.ts';

export type RunsAppOptions = Omit<RunsApiOptions, 'admission' | 'hasToken' | 'host' | 'log'> & {
  address?: string;
  token?: string;
  tokens?: TokensConfig;
  anyone?: Caller;
  admission?: Admission;
  corsOrigins?: readonly string[];
  work?: WorkMetrics;
  mounted?: readonly MountedApi[];
  host?: Host;
  log?(line: string): void;
  onRequest?(record: AccessRecord): void;
};

const EXPOSED_HEADERS = ['x-request-id', 'x-should-retry', 'retry-after', 'agentchart-ignored'];

const gzip = compress({ encoding: 'gzip' });

const compressReads: MiddlewareHandler = (c, next) => (c.req.method === 'GET' ? gzip(c, next) : next());

/** The runs API without a socket; `serveRuns` listens. */
export type RunsApp = {
  hono: Hono<RunsEnv>;
  fetch: Hono<RunsEnv>['fetch'];
  request: Hono<RunsEnv>['request'];
  /** The largest body of a request to a mounted API, and the largest message on a WebSocket, in bytes. */
  bodyBytes: number;
  /** Resumes runs whose driver is gone, now and periodically until `close`; returns the ids of those resumed now. */
  pickUp(): Promise<string[]>;
  /** The number of open runs: watched, driven, or resting with a deadline. */
  countHeld(): number;
  /** Ends the streams and refuses new work; `/readyz` says so. The store stays open, and runs stay resumable. */
  close(): void;
};

/**
 * The HTTP server of `agentchart serve`: the runs API (`runs/`), the Responses-compatible gateway (`responses/`,
 * mounted), and the web page, over one store and the agents that drive its runs.
 *
 * A request passes, in order: security headers, the `Host` and `Origin` check, the lookup of its caller, the open
 * routes (health, page, sign-in), the check of the caller's rights, and its route. Routes validate bodies with a schema
 * and throw errors; `onError` turns every error into the API's envelope.
 */
export function createRunsApp(options: RunsAppOptions): RunsApp {
  const { store, token, assets, version = '0.0.0', host = systemHost } = options;
  const log = options.log ?? (() => {});
  const bodyLimits = { ...BODY_LIMITS, ...options.bodyLimits };
  const tokens = new Tokens(token, options.tokens);
  const admission = options.admission ?? new Admission({ host });
  const origins = options.corsOrigins ?? [];
  const runs = createRunsApi({ ...options, admission, host, log, hasToken: tokens.callers.length > 0 });
  const mounted = options.mounted ?? [];
  const tables: RouteTable[] = [OPEN_ROUTES, PAGE_ROUTES, SERVER_ROUTES];
  for (const api of [runs, ...mounted]) tables.push(api.routes);
  const routes: RouteTable = Object.fromEntries(tables.flatMap(table => Object.entries(table)));
  const { anyone } = options;
  const gate = new Gate({ tokens, routes, anyone, sessions: new Sessions(host), pace: new SignInPace(host) });
  const probe = new StoreProbe(store, host, log);
  const app = new Hono<RunsEnv>();

  app.use(logRequests(host, options.onRequest));
  app.use(compressReads);
  app.use(setSecurityHeaders, guardOrigin(options.address ?? '127.0.0.1', origins));
  if (origins.length > 0)
    app.use('/v1/*', cors({ origin: [...origins], exposeHeaders: EXPOSED_HEADERS, maxAge: 600 }));
  app.use(gate.identify);
  let isClosing = false;
  mountRoutes(app, bodyLimits, OPEN_ROUTES, {
    'GET /healthz': c => c.json({ ok: true, version }),
    'GET /readyz': async c => {
      if (isClosing) throw new ApiError('shutting-down', 'The server is shutting down. Retry later.');
      await probe.assertReady();
      return c.json({ ok: true });
    },
    'POST /session': async (c, { body }) => {
      await gate.signIn(c, body.token);
      return c.body(null, 204);
    },
    'GET /sign-in/callback': async (c, { query }) => {
      const server = await runs.completeSignIn(query);
      c.header('cache-control', 'no-store');
      c.header('referrer-policy', 'no-referrer');
      return c.text(`You are signed in at ${server}. You can close this window.\n`);
    },
    'DELETE /session': c => {
      gate.signOut(c);
      return c.body(null, 204);
    },
  });
  if (assets !== undefined) addPage(app, assets);
  const apiAt = (path: string) => mounted.find(({ prefix }) => isBelow(path, prefix));
  app.use(gate.authorize, limitStreams(admission.limits.openStreams, routes), async (c, next) => {
    c.set('requestLimits', { ...bodyLimits, maxBytes: admission.limits.bodyBytes });
    // Other APIs answer a POST when a run settles, which the store's absence only delays.
    const waitsForRun = c.req.method === 'POST' && apiAt(c.req.path) !== undefined;
    await (waitsForRun ? next() : probe.limitWaits(c, next));
  });
  const metrics = new RunMetrics(store);
  mountRoutes(app, bodyLimits, SERVER_ROUTES, {
    'GET /session': c => {
      const { name, role } = c.get('caller');
      return c.json({ name, role });
    },
    'GET /metrics': async c => {
      if (Object.keys(c.get('caller').labels).length > 0)
        throw new ApiError(
          'forbidden',
          'Metrics are about all runs; this token is for runs with its labels.',
        );
      const work = await options.work?.describe(runs);
      return c.body((await metrics.describe()) + (work ?? ''), 200, {
        'Content-Type': 'text/plain; version=0.0.4; charset=utf-8',
      });
    },
  });
  for (const api of [runs, ...mounted]) api.add(app);

  app.notFound(c => {
    const hint = apiAt(c.req.path) === undefined ? ' /openapi.json lists all routes.' : '';
    throw new ApiError('not-found', `There is no ${c.req.method} route at this path.${hint}`);
  });
  app.onError((error, c) => {
    prepareError(c, error, log);
    return (apiAt(c.req.path) ?? runs).answerError(c, error);
  });

  return {
    hono: app,
    fetch: app.fetch,
    request: app.request,
    bodyBytes: admission.limits.bodyBytes,
    pickUp: runs.pickUp,
    countHeld: runs.countHeld,
    close: () => {
      isClosing = true;
      for (const api of [runs, ...mounted]) api.close?.();
    },
  };
}

function isBelow(path: string, prefix: string): boolean {
  return path === prefix || path.startsWith(`${prefix}/`);
}
