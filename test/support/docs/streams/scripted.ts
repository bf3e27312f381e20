/** The exports that the examples of docs/streams.md import from `agentchart/adapters/scripted`. */
export { scripted } from '../../../../adapters/scripted.ts';
