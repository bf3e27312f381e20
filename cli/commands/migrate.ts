import { loadRun } from '../../engine/journal/load-run.ts';
import { statusOf } from '../../machines/standing.ts';
import { statePath } from '../../machines/step.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { withAgent } from '../change-run.ts';
import { agentToMigrate } from '../check-versions.ts';
import { EXIT } from '../exit-codes.ts';
import { findRun } from '../find-run.ts';
import { storeFile, withExistingStore } from '../open-store.ts';
import { CommandLines } from '../render/command-lines.ts';
import { Output } from '../render/output.ts';

export type MigrateCommandOptions = { db?: string; json?: boolean; agent?: string; as?: string };

/** Implements `agentchart migrate`. Creates the new run without driving it; the old run is not changed. */
export async function migrate(id: string, options: MigrateCommandOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  const file = storeFile(options.db);
  return await withExistingStore(file, async store => {
    const record = await findRun(store, id);
    const agent = await agentToMigrate(store, record, options.agent);
    return await withAgent(agent, output, async () => {
      const run = await agent.migrate(record.runId, omitUndefined({ as: options.as }));
      const { state, seq } = await loadRun(store, run.id);
      const migrated = { runId: run.id, migratedFrom: record.runId, seq, state: statePath(state) };
      if (output.json) output.data({ ...migrated, status: statusOf(state) });
      else {
        output.line({ style: 'bold', text: run.id }, `  migrated from ${record.runId}, ${seq} events`);
        output.line({ style: 'dim', text: 'state     ' }, migrated.state);
        output.line('To inspect: ', { style: 'cyan', text: new CommandLines(file).of('show', run.id) });
        if (state.status === 'active')
          output.line('To resume:  ', { style: 'cyan', text: new CommandLines(file).of('resume', run.id) });
      }
      return EXIT.done;
    });
  });
}
