/** What the examples of docs/streams.md import from `agentchart`. */
export * from '../../../surfaces/library/index.ts';
