import type { ProviderFetch } from '../adapters/http/transport.ts';
import type { Agent } from '../agent/agent.ts';
import { type Host, systemHost, warn } from '../engine/host/host.ts';
import { omitUndefined } from '../protocol/json.ts';
import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { Store } from '../protocol/store.ts';
import { drivesRuns } from '../stores/non-driving-store.ts';
import { type Agents, byName, listAgents } from './agent-names.ts';
import { createChatCompletionsApi } from './chat-completions/chat-api.ts';
import { addConversationRoutes, Conversations } from './conversations/conversations.ts';
import { EMPTY_GATEWAY, type GatewayConfig } from './gateway/config/gateway-config.ts';
import { GatewayService } from './gateway/gateway-service.ts';
import { RESPONSES } from './gateway/runs/response-spec.ts';
import { HANDLER_NAMES, type Handler, type HandlerOptions, handlerOf } from './handler.ts';
import { createMessagesApi } from './messages/messages-api.ts';
import type { MountedApi } from './mounted-api.ts';
import { Responses } from './responses/responses.ts';
import { createResponsesApi } from './responses/responses-api.ts';
import { SOCKET_PATH } from './route-table.ts';
import { createRunsApi } from './runs/runs-api.ts';
import type { ServedAgentsOptions } from './runs/served-agents.ts';
import { socketRoute } from './sockets/response-socket.ts';

/** Options of the gateway, which `responsesApp` and `chatApp` share if they get the same object. */
export type GatewayOptions = {
  /** Where the runs of requests are. */
  store: Store;
  /** Models, MCP servers, prices and limits, as `readGatewayConfig` returns them. Default: none. */
  config?: GatewayConfig;
  /** `provider:model`. Its provider serves model names that are neither an alias nor `provider:model`. */
  model?: string;
  /** Clock and id generator. Default: the system's. */
  host?: Host;
  /** Receives one line per problem, for the operator; never a secret. Default: a warning of the process. */
  log?(line: string): void;
};

export type Gateway = {
  service: GatewayService;
  responses: MountedApi;
  messages: MountedApi;
  chat: MountedApi;
  agentsByRun: NonNullable<ServedAgentsOptions['agentsByRun']>;
};

/** `agents`: by the names under which requests have them for a model. The others: see `GatewayServiceOptions`. */
export function createGateway(
  options: GatewayOptions & {
    hiddenWaitMs?: number;
    drives?: boolean;
    fetch?: ProviderFetch;
    logIgnored?(line: string): void;
  },
  agents?: ReadonlyMap<string, Agent>,
): Gateway {
  const { store, config = EMPTY_GATEWAY, host = systemHost, log = warn } = options;
  const { model, hiddenWaitMs, drives = drivesRuns(store), fetch, logIgnored } = options;
  const more = omitUndefined({ model, agents, hiddenWaitMs, drives, fetch, logIgnored });
  const service = new GatewayService({ store, host, gateway: config, log, ...more });
  const conversations = new Conversations({ store, host, library: service.library });
  const responses = new Responses(service, (id, caller) => conversations.open(id, caller));
  const api = createResponsesApi(responses, log);
  return {
    service,
    responses: {
      ...api,
      add(app) {
        app.get(SOCKET_PATH, socketRoute({ responses, host, log }));
        api.add(app);
        addConversationRoutes(app, conversations);
      },
    },
    messages: createMessagesApi(service, log),
    chat: createChatCompletionsApi(service, log),
    agentsByRun: new Map([[RESPONSES, record => service.agentFor(record)]]),
  };
}

const gateways = new WeakMap<object, Gateway>();

/** The gateway of a handler of `createResponsesHandler`, or the one that all apps with the same options object share. */
export function gatewayOf(options: GatewayOptions | Handler): Gateway {
  const known = gateways.get(options);
  if (known !== undefined) return known;
  if (typeof options === 'function')
    throw new TypeError('Expected the handler of createResponsesHandler, or the options of responsesApp.');
  const made = createGateway(options);
  gateways.set(options, made);
  return made;
}

/** Resumes the runs of requests whose process is gone, now and periodically, until the result closes the gateway. */
export function recoverRequests({ service, agentsByRun }: Gateway, options: GatewayOptions): () => void {
  const { store, host = systemHost, log = warn } = options;
  const runs = createRunsApi({ store, host, log, agents: new Map(), agentsByRun });
  runs.recover();
  return () => {
    runs.close?.();
    service.live.close();
    service.close().catch(() => {});
  };
}

/** Options of `createResponsesHandler`. */
export type ResponsesHandlerOptions = HandlerOptions & {
  /** Further models, MCP servers, prices and limits, as `readGatewayConfig` returns them. Default: none. */
  gateway?: GatewayConfig;
};

const NAMES: NamesOf<ResponsesHandlerOptions> = { ...HANDLER_NAMES, gateway: true };

/**
 * Creates a handler of `…/v1`: Responses, Conversations, Chat Completions, Messages and the list of models. An agent is a
 * model by its name, and a single agent is also the default: its runs have its instructions, tools, checks and models. A
 * request adds its instructions after those of the agent, and functions of its own. Runs are in the store of the first agent.
 * Resumes background responses whose process is gone.
 *
 * @example
 * const handler = createResponsesHandler(agent, { authorize });
 * app.all('/v1/*', c => handler(c.req.raw));
 */
export function createResponsesHandler(agents: Agents, options: ResponsesHandlerOptions = {}): Handler {
  refuseUnknownOptions('createResponsesHandler', options, NAMES);
  const { gateway: config, log = warn } = options;
  const all = listAgents(agents);
  const opened = { store: all[0].store, log, ...omitUndefined({ config }) };
  const gateway = createGateway(opened, byName(all));
  const { service, responses, messages, chat } = gateway;
  const { bodyBytes } = service.admission.limits;
  const handler = handlerOf([responses, messages, chat], { bodyBytes, ...options }, { log });
  gateways.set(handler, gateway);
  return Object.assign(handler, { close: recoverRequests(gateway, opened) });
}
