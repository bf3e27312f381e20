import { loadRun } from '../../engine/journal/load-run.ts';
import { statusOf } from '../../machines/status.ts';
import { statePath } from '../../machines/step.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { EXIT } from '../exit-codes.ts';
import { agentToMigrate, withAgent } from '../launch.ts';
import type { StoreOptions } from '../options.ts';
import { bold, cyan, dim } from '../render/output.ts';
import { withRun } from '../store.ts';

/** Implements `agentchart migrate`. Creates the new run without driving it; the old run is not changed. */
export async function migrate(
  id: string,
  options: StoreOptions & { agent?: string; as?: string },
): Promise<number> {
  return await withRun(id, options, async ({ store, output, commands, record }) => {
    const agent = await agentToMigrate(store, record, options.agent);
    return await withAgent(agent, output, async () => {
      const run = await agent.migrate(record.runId, omitUndefined({ as: options.as }));
      const { state, seq } = await loadRun(store, run.id);
      const migrated = { runId: run.id, migratedFrom: record.runId, seq, state: statePath(state) };
      if (output.json) output.data({ ...migrated, status: statusOf(state) });
      else {
        output.line(bold(run.id), `  migrated from ${record.runId}, ${seq} events`);
        output.line(dim('state     '), migrated.state);
        output.line('To inspect: ', cyan(commands.of('show', run.id)));
        if (state.status === 'active') output.line('To resume:  ', cyan(commands.of('resume', run.id)));
      }
      return EXIT.done;
    });
  });
}
