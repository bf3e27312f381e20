/** `agentchart/ag-ui`: an AG-UI 1.0 endpoint for an agent. */
export { type AgUiOptions, createAgUiHandler } from './handler.ts';
