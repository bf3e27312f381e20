import type { Agent } from '../../agent/agent.ts';
import { loadRunAt } from '../../engine/journal/load-run.ts';
import { readJournal } from '../../engine/journal/read-journal.ts';
import type { ForkModel } from '../../engine/run/forks/copy-journal.ts';
import type { Run } from '../../engine/run/run.ts';
import { EngineError } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import { withAgent } from '../change-run.ts';
import { detectEarlyExit } from '../detect-early-exit.ts';
import { driveRun } from '../drive-run.ts';
import { EXIT } from '../exit-codes.ts';
import { findRun } from '../find-run.ts';
import { absoluteModel, bareAgent, makeOwnAgent, readLaunch, recallLaunch } from '../launch.ts';
import { storeFile, withExistingStore } from '../open-store.ts';
import { type DriveOptions, readEntryNumber, userName } from '../options.ts';
import { CommandLines } from '../render/command-lines.ts';
import { makeView, orderEvent } from '../render/make-view.ts';
import { Output } from '../render/output.ts';
import { type ForkChanges, readChanges } from './read-fork-changes.ts';

export type ForkOptions = DriveOptions &
  ForkChanges & {
    at: string;
    drive: boolean;
    message?: string;
    paused?: boolean;
    replayTools?: boolean;
    model?: string;
  };

type Fork = { run: Run; store: Store; output: Output; commands: CommandLines };

/** Implements `agentchart fork`. */
export async function fork(id: string, options: ForkOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  const at = readEntryNumber('--at', options.at);
  if (options.message?.trim() === '') throw new EngineError('input-invalid', '--message must not be empty.');
  const { by = userName() } = options;
  const changesFor = readChanges(options, by);
  const model = options.model === undefined ? undefined : await nameModel(options.model);
  const named = omitUndefined({ model: model?.launch });
  const file = storeFile(options.db);
  return await detectEarlyExit(() =>
    withExistingStore(file, async store => {
      const source = await findRun(store, id);
      const agent = options.drive
        ? await makeOwnAgent(
            source,
            store,
            { ...(await recallLaunch(store, source.runId)), ...named },
            { ...readLaunch(options.agent), ...named },
          )
        : bareAgent(source, store);
      return await withAgent(agent, output, async () => {
        const { message, paused, replayTools } = options;
        const changes = await changesFor(
          async () => (await loadRunAt(store, source.runId, at)).state.context,
        );
        const how = { message, paused, replayTools, model, commands: changes, by };
        const run = await (await agent.open(source.runId)).fork({ at, ...how });
        const shown = { run, store, output, commands: new CommandLines(file) };
        if (!output.json)
          output.line({ style: 'bold', text: run.id }, `  fork of ${source.runId} at entry ${at}`);
        return options.drive ? await driveFork(shown, agent, options) : await showFork(shown);
      });
    }),
  );
}

async function nameModel(text: string): Promise<ForkModel> {
  const launch = absoluteModel(text);
  const { modelFromEnv } = await import('../../adapters/model-from-env.ts');
  const { provider, model } = modelFromEnv(launch);
  return { launch, provider, model };
}

/** Shows all events of the fork as JSON, but only new ones as text. */
async function driveFork(fork: Fork, agent: Agent, { deltas, by, yes }: ForkOptions): Promise<number> {
  const { run, store, output, commands } = fork;
  const begin = output.json ? null : run.durable;
  return await driveRun({
    run,
    store,
    output,
    commands,
    view: makeView({ output, runId: run.id, agent, deltas: deltas === true, begin }),
    after: begin?.seq ?? 0,
    by: by ?? userName(),
    yes: yes === true,
  });
}

async function showFork({ run, store, output, commands }: Fork): Promise<number> {
  if (!output.json) output.line('To resume: ', { style: 'cyan', text: commands.of('resume', run.id) });
  else
    for (const { seq, event } of await readJournal(store, run.id))
      output.data(orderEvent({ ...event, runId: run.id, seq }));
  return EXIT.done;
}
