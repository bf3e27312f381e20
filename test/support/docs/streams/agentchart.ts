/** The exports that the examples of docs/streams.md import from `agentchart`. */
export * from '../../../../agent/index.ts';
