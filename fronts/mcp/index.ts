/** `agentchart/mcp`: agents as the tools of an MCP server. */
export type { Authorize, AuthorizedCaller } from '../../access/caller.ts';
export type { Agents } from '../../server/agent-names.ts';
export type { Handler, HandlerOptions } from '../../server/handler.ts';
export { createMcpHandler, type McpHandlerOptions } from './mcp-api.ts';
