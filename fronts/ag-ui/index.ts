/** `agentchart/ag-ui`: an endpoint of AG-UI 1.0 for an agent. */
export { type AgUiOptions, createAgUiHandler } from './handler.ts';
