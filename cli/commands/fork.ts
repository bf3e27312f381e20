import { systemHost } from '../../engine/driver/host.ts';
import type { LoadedRun } from '../../engine/journal/load-run.ts';
import { readJournal } from '../../engine/journal/read-journal.ts';
import { forkRun } from '../../engine/run/fork-run.ts';
import { EngineError } from '../../protocol/error.ts';
import type { Store } from '../../protocol/store.ts';
import type { Agent } from '../../tools/agent/agent.ts';
import { closing } from '../change-run.ts';
import { detectEarlyExit } from '../detect-early-exit.ts';
import { driveRun } from '../drive-run.ts';
import { EXIT } from '../exit-codes.ts';
import { findRun } from '../find-run.ts';
import { bareAgent, makeOwnAgent, readLaunch, recallLaunch } from '../launch.ts';
import { storeFile, withExistingStore } from '../open-store.ts';
import { type DriveOptions, readEntryNumber, userName } from '../options.ts';
import { CommandLines } from '../render/command-lines.ts';
import { orderEvent } from '../render/json-view.ts';
import { makeView } from '../render/make-view.ts';
import { Output } from '../render/output.ts';

export type ForkOptions = DriveOptions & { at: string; drive: boolean; message?: string };

type Fork = { runId: string; loaded: LoadedRun; store: Store; output: Output; commands: CommandLines };

/** Begins a run with another's journal up to an entry, and drives it until it settles. */
export async function fork(id: string, options: ForkOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  const at = readEntryNumber('--at', options.at);
  if (options.message?.trim() === '')
    throw new EngineError('input-invalid', '--message takes a text, and this one is empty.');
  const file = storeFile(options.db);
  return await detectEarlyExit(() =>
    withExistingStore(file, async store => {
      const source = await findRun(store, id);
      const agent = options.drive
        ? await makeOwnAgent(
            source,
            store,
            await recallLaunch(store, source.runId),
            readLaunch(options.agent),
          )
        : bareAgent(source, store);
      return await closing(agent, output, async () => {
        const said = { message: options.message, by: options.by ?? userName() };
        const forked = await forkRun({ store, host: systemHost }, source.runId, at, said);
        const shown = { ...forked, store, output, commands: new CommandLines(file) };
        if (!output.json)
          output.line({ style: 'bold', text: forked.runId }, `  fork of ${source.runId} at entry ${at}`);
        return options.drive ? await driveFork(shown, agent, options) : await leaveFork(shown);
      });
    }),
  );
}

/** For programs the whole journal is shown, for people what happens from here on. */
async function driveFork(forked: Fork, agent: Agent, { deltas, by, yes }: ForkOptions): Promise<number> {
  const { runId, loaded, store, output, commands } = forked;
  const state = output.json ? null : loaded.state;
  return await driveRun({
    ...{ run: await agent.open(runId), store, output, commands },
    view: makeView({ output, runId, agent, deltas: deltas === true, state }),
    after: output.json ? 0 : loaded.seq,
    by: by ?? userName(),
    yes: yes === true,
  });
}

async function leaveFork({ runId, store, output, commands }: Fork): Promise<number> {
  if (!output.json) output.line('To go on: ', { style: 'cyan', text: commands.of('resume', runId) });
  else
    for (const { seq, event } of await readJournal(store, runId))
      output.data(orderEvent({ ...event, runId, seq }));
  return EXIT.done;
}
