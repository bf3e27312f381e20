import { EngineError } from '../../protocol/error.ts';

/** Why an agent does not take a run: it belongs to `owner`, and `agent` would drive it with its own model and tools. */
export function foreignRun(runId: string, owner: string, agent: string): EngineError {
  return new EngineError(
    'run-foreign',
    `Run ${runId} belongs to agent "${owner}", and this is agent "${agent}", which would go on with its own model and tools. ` +
      `Open the run with agent "${owner}", or with an agent that has "${owner}" as a sub-agent. ` +
      `To hand the conversation over, wait until the run has ended and begin one with { continues: '${runId}' }.`,
    { runId, owner, agent },
  );
}
