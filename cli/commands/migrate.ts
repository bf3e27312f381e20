import { loadRun } from '../../engine/journal/load-run.ts';
import { statusOf } from '../../machines/status.ts';
import { statePath } from '../../machines/step.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Action } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { agentToMigrate, withAgent } from '../launch.ts';
import { bold, cyan, dim } from '../render/output.ts';
import { withRun } from '../store.ts';

/** Creates the new run without driving it; the old run is not changed. */
export const migrateCommand: Action<'migrate'> = ({ agent: module, as, ...options }) =>
  withRun(options, async ({ store, output, commands, record }) => {
    const agent = await agentToMigrate(store, record, module);
    return await withAgent(agent, output, async () => {
      const { id } = await agent.migrate(record.runId, omitUndefined({ as }));
      const { state, seq } = await loadRun(store, id);
      const migrated = { runId: id, migratedFrom: record.runId, seq, state: statePath(state) };
      if (output.json) output.data({ ...migrated, status: statusOf(state) });
      else {
        output.line(bold(id), `  migrated from ${record.runId}, ${seq} events`);
        output.line(dim('state     '), migrated.state);
        output.line('To inspect: ', cyan(commands.of('show', id)));
        if (state.status === 'active') output.line('To resume:  ', cyan(commands.of('resume', id)));
      }
      return EXIT.done;
    });
  });
