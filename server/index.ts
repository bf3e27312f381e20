/**
 * `agentchart/server`: the server of `agentchart serve` as Hono apps, to mount in a server of one's own, and the worker of
 * `agentchart worker` as a function (`worker.ts`). `app.ts` puts the same APIs behind tokens and adds the page;
 * `mounted-api.ts` says what an API is.
 */

import type { Hono } from 'hono';
import type { Authorize } from '../access/caller.ts';
import type { Agent } from '../agent/agent.ts';
import { systemHost, warn } from '../engine/host/host.ts';
import { omitUndefined } from '../protocol/json.ts';
import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { Store } from '../protocol/store.ts';
import { Admission } from './access/admission.ts';
import type { AccessRecord } from './access/request-record.ts';
import { byName } from './agent-names.ts';
import { type Gateway, type GatewayOptions, gatewayOf, recoverRequests } from './gateway.ts';
import { appOf, type Handler } from './handler.ts';
import type { MountedApi } from './mounted-api.ts';
import { BODY_LIMITS } from './read-body.ts';
import { logRequests } from './request-log.ts';
import { createRunsApi } from './runs/runs-api.ts';

export type { Authorize, AuthorizedCaller, Caller } from '../access/caller.ts';
export type { Role } from '../access/role.ts';
export { nonDrivingStore } from '../stores/non-driving-store.ts';
export type { AccessRecord as RequestRecord } from './access/request-record.ts';
export type { Agents } from './agent-names.ts';
export type { GatewayConfig } from './gateway/config/gateway-config.ts';
export { readGatewayConfig } from './gateway/config/read-gateway-config.ts';
export { createResponsesHandler, type GatewayOptions, type ResponsesHandlerOptions } from './gateway.ts';
export type { Handler, HandlerOptions } from './handler.ts';
export { createStoryHandler } from './story/story-handler.ts';
export type { NotedEvent, StoryLine, StoryLineEvent } from './story/story-line.ts';
export { type RunningWorker, type WorkerOptions, worker } from './worker.ts';

/** A Hono app to mount (`app.route('/', …)`) or to serve (`fetch`). `close` ends its streams and its recovery of runs. */
export type ServerApp = Hono & { close(): void };

/** Who may use an app, and what it reports. */
export type AccessOptions = {
  /** Default: every request is an operator's. Then mount the app behind other checks. */
  authorize?: Authorize;
  /** Receives a record of each request, without content. */
  onRequest?(record: AccessRecord): void;
};

/** Options of `runsApp`. */
export type RunsOptions = AccessOptions & {
  /** The agents whose runs the app starts and drives. All use `store`. */
  agents: readonly Agent[];
  /** Default: the store of the first agent. */
  store?: Store;
  /**
   * The options object of `responsesApp` and `chatApp`, or the handler of `createResponsesHandler`, so that their runs can be
   * decided here too.
   */
  gateway?: GatewayOptions | Handler;
  /** Receives one line per problem, for the operator; never a secret. Default: a warning of the process. */
  log?(line: string): void;
};

const ACCESS_NAMES: NamesOf<AccessOptions> = { authorize: true, onRequest: true };
const RUNS_NAMES: NamesOf<RunsOptions> = {
  ...ACCESS_NAMES,
  agents: true,
  store: true,
  gateway: true,
  log: true,
};
const GATEWAY_NAMES: NamesOf<GatewayOptions & AccessOptions> = {
  ...ACCESS_NAMES,
  store: true,
  config: true,
  model: true,
  host: true,
  log: true,
};

/**
 * The runs API: `/runs`, `/agents`, `/threads`, `/inbox`, `/notes`, `/regressions`, `/events`, `/me` and `/openapi.json`. Drives runs in
 * this process, and resumes those whose process is gone. Throws a `TypeError` without an agent and without a store, and
 * `agent-invalid` for two agents of one name.
 *
 * @example
 * const app = new Hono().route('/', runsApp({ agents: [agent], authorize }));
 */
export function runsApp(options: RunsOptions): ServerApp {
  refuseUnknownOptions('runsApp', options, RUNS_NAMES);
  if (options.gateway !== undefined && typeof options.gateway !== 'function')
    refuseUnknownOptions('gateway of runsApp', options.gateway, GATEWAY_NAMES);
  const { agents, gateway, authorize, onRequest, log = warn } = options;
  const store = options.store ?? agents[0]?.store;
  if (store === undefined) throw new TypeError('runsApp needs an agent or a store.');
  const admission = new Admission({ host: systemHost });
  const runs = createRunsApi({
    store,
    log,
    admission,
    agents: byName(agents),
    hasToken: authorize !== undefined,
    ...omitUndefined({ agentsByRun: gateway && gatewayOf(gateway).agentsByRun }),
  });
  runs.recover();
  return serverApp(runs, { admission, log, ...omitUndefined({ authorize, onRequest }) });
}

/**
 * The Responses API and the Messages API: `/v1/responses` (its WebSocket too, under `@hono/node-server` with
 * `websocket`), `/v1/conversations`, `/v1/models` and `/v1/messages`. Resumes background responses whose process is
 * gone.
 */
export function responsesApp(options: GatewayOptions & AccessOptions): ServerApp {
  refuseUnknownOptions('responsesApp', options, GATEWAY_NAMES);
  const gateway = gatewayOf(options);
  const access = accessOf(options, gateway);
  const app = serverApp(gateway.responses, access);
  app.route('/', serverApp(gateway.messages, access));
  return Object.assign(app, { close: recoverRequests(gateway, options) });
}

/** Chat Completions: `/v1/chat/completions`. */
export function chatApp(options: GatewayOptions & AccessOptions): ServerApp {
  refuseUnknownOptions('chatApp', options, GATEWAY_NAMES);
  const gateway = gatewayOf(options);
  return serverApp(gateway.chat, accessOf(options, gateway));
}

type ServerOptions = AccessOptions & { admission: Admission; log(line: string): void };

function accessOf(
  { authorize, onRequest, log = warn }: GatewayOptions & AccessOptions,
  { service }: Gateway,
): ServerOptions {
  const { admission } = service;
  return { admission, log, ...omitUndefined({ authorize, onRequest }) };
}

function serverApp(api: MountedApi, { authorize, onRequest, admission, log }: ServerOptions): ServerApp {
  const { openStreams, bodyBytes } = admission.limits;
  const limits = { ...BODY_LIMITS, maxBytes: bodyBytes };
  const first = logRequests(systemHost, onRequest);
  const app = appOf(api, { authorize, limits, log, openStreams, first });
  return Object.assign(app as unknown as Hono, { close: () => api.close?.() });
}
