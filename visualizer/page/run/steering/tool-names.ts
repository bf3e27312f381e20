import type { Desk } from '../desk.ts';

/** The names of the agent's tools, as the run's first entry has them. */
export function toolNames({ model }: Desk): readonly string[] {
  const started = model.entry(1);
  return started?.type === 'run.started' ? (started.tools ?? []).map(({ name }) => name) : [];
}
