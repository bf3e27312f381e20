/** `agentchart/react`: runs in pages. `remoteRun` needs no React. */
export { type RemoteRunOptions, remoteRun } from './remote-run.ts';
export type { CallTarget, CommandAnswer, ObservedRun, RunCommands, RunSnapshot } from './run-snapshot.ts';
export { useRun } from './use-run.ts';
