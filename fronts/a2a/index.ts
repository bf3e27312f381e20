/** `agentchart/a2a`: agents over A2A 1.0. */
export type { Authorize, AuthorizedCaller } from '../../access/caller.ts';
export type { Agents } from '../../server/agent-names.ts';
export type { Handler, HandlerOptions } from '../../server/handler.ts';
export { createA2aHandler } from './a2a-api.ts';
