/** `agentchart/ag-ui`: an AG-UI 1.0 endpoint for an agent. */
export type { Authorize, AuthorizedCaller } from '../../access/caller.ts';
export type { Agents } from '../../server/agent-names.ts';
export type { Handler, HandlerOptions } from '../../server/handler.ts';
export { type AgUiOptions, createAgUiHandler } from './handler.ts';
