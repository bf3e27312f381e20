import { warn } from '../../engine/host/host.ts';
import { type NamesOf, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import type { Agents } from '../../server/agent-names.ts';
import { HANDLER_NAMES, type Handler, type HandlerOptions, handlerOf } from '../../server/handler.ts';
import { serveRunsOf } from '../served/served-runs.ts';
import { createMcpApi, MCP_PATH } from './mcp-api.ts';
import { stateKeyOf } from './state-key.ts';

/** Options of `createMcpHandler`. */
export type McpHandlerOptions = HandlerOptions & {
  /**
   * At least 32 characters, the same in every process: seals what clients send back with an answer. Default:
   * `AGENTCHART_MCP_KEY`, else a new one for this process.
   */
  secret?: string;
  /** The version of the server, for clients. Default `0.0.0`. */
  version?: string;
};

const NAMES: NamesOf<McpHandlerOptions> = { ...HANDLER_NAMES, secret: true, version: true };

/**
 * Creates a handler of MCP over Streamable HTTP, at any path: each agent is a tool that takes `{ input }`. Drives runs in
 * this process, and resumes those whose process is gone. Throws `input-invalid` for a short secret.
 *
 * @example
 * const handler = createMcpHandler(agent, { authorize });
 * app.all('/mcp', c => handler(c.req.raw));
 */
export function createMcpHandler(agents: Agents, options: McpHandlerOptions = {}): Handler {
  refuseUnknownOptions('createMcpHandler', options, NAMES);
  const { secret, version = '0.0.0', log = warn } = options;
  const key = stateKeyOf(undefined, log, secret);
  const api = createMcpApi({ runs: serveRunsOf(agents, log), key: () => key, version, log });
  return handlerOf([api], options, { log, pathOf: () => MCP_PATH });
}
