import type { Agent } from '../agent/agent.ts';
import { systemHost } from '../engine/host/host.ts';
import { warn } from '../engine/host/warn.ts';
import { omitUndefined } from '../protocol/json.ts';
import { createChatApi } from './chat-completions/chat-api.ts';
import type { GatewayOptions } from './gateway-options.ts';
import { createMessagesApi } from './messages/messages-api.ts';
import type { MountedApi } from './mounted-api.ts';
import { EMPTY_GATEWAY } from './responses/gateway/gateway-config.ts';
import { createResponsesApi } from './responses/responses-api.ts';
import type { ResponsesService } from './responses/responses-service.ts';
import { RESPONSES } from './responses/wire/response-spec.ts';
import { createRunsApi } from './runs/runs-api.ts';
import type { ServedAgentsOptions } from './runs/served-agents.ts';

/** The protocols of model providers, over one service. */
export type Gateway = {
  service: ResponsesService;
  responses: MountedApi;
  messages: MountedApi;
  chat: MountedApi;
  /** The agents that drive the runs of requests, for `ServedAgents`. */
  agentsByRun: NonNullable<ServedAgentsOptions['agentsByRun']>;
};

/** Creates the gateway. `agents`: by the names under which requests have them for a model. */
export function createGateway(options: GatewayOptions, agents?: ReadonlyMap<string, Agent>): Gateway {
  const { store, config = EMPTY_GATEWAY, model, host = systemHost, log = warn } = options;
  const responses = createResponsesApi({
    store,
    host,
    gateway: config,
    log,
    ...omitUndefined({ model, agents }),
  });
  const { service } = responses;
  return {
    service,
    responses,
    messages: createMessagesApi(service, log),
    chat: createChatApi(responses),
    agentsByRun: new Map([[RESPONSES, record => service.agentFor(record)]]),
  };
}

/** Resumes the runs of requests whose process is gone, now and periodically, until the result is called. */
export function recoverRequests(gateway: Gateway, options: GatewayOptions): () => void {
  const { store, host = systemHost, log = warn } = options;
  const runs = createRunsApi({
    store,
    host,
    log,
    agents: new Map(),
    agentsByRun: gateway.agentsByRun,
  });
  runs.recover();
  return () => runs.close?.();
}
