import { warn } from '../engine/host/warn.ts';
import { omitUndefined } from '../protocol/json.ts';
import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { type Agents, listAgents } from './agent-names.ts';
import { createGateway, recoverRequests } from './gateway.ts';
import { HANDLER_NAMES, type Handler, type HandlerOptions, handlerOf } from './handler.ts';
import type { GatewayConfig } from './responses/gateway/gateway-config.ts';

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
  const gateway = createGateway(opened, new Map(all.map(agent => [agent.name, agent])));
  const stopRecovery = recoverRequests(gateway, opened);
  const { service, responses, messages, chat } = gateway;
  const { bodyBytes } = service.admission.limits;
  const handler = handlerOf([responses, messages, chat], { bodyBytes, ...options }, { log });
  return Object.assign(handler, {
    close() {
      stopRecovery();
      service.endStreams();
      service.close().catch(() => {});
    },
  });
}
