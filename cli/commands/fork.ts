import { systemHost } from '../../engine/driver/host.ts';
import type { LoadedRun } from '../../engine/journal/load-run.ts';
import { readJournal } from '../../engine/journal/read-journal.ts';
import { type ForkModel, forkRun } from '../../engine/run/forks/fork-run.ts';
import type { Run } from '../../engine/run/run.ts';
import type { RunCommand } from '../../engine/run/run-command.ts';
import { EngineError } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import type { Agent } from '../../tools/agent/agent.ts';
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

type Fork = { runId: string; loaded: LoadedRun; store: Store; output: Output; commands: CommandLines };

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
        const editsReply = options.text !== undefined;
        const decided = options.result === undefined ? [] : [options.result];
        const how = { message, paused: paused === true || editsReply, replayTools, model, decided, by };
        const forked = await forkRun({ store, host: systemHost }, source.runId, at, how);
        const changes = changesFor(forked.loaded.state.context);
        if (editsReply && paused !== true) changes.push({ type: 'unpause', by });
        await change(store, await agent.open(forked.runId), changes);
        const shown = { ...forked, store, output, commands: new CommandLines(file) };
        if (!output.json)
          output.line({ style: 'bold', text: forked.runId }, `  fork of ${source.runId} at entry ${at}`);
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

/** Applies the changes to a new fork. If one is refused, deletes the fork and throws the refusal. */
async function change(store: Store, run: Run, changes: readonly RunCommand[]): Promise<void> {
  if (changes.length === 0) return;
  const result = await run.submit(changes).catch(async error => {
    await store.delete(run.id);
    throw error;
  });
  if (result.accepted) return;
  await store.delete(run.id);
  throw new EngineError(result.code, result.message);
}

/** Shows all events of the fork as JSON, but only new ones as text. */
async function driveFork(forked: Fork, agent: Agent, { deltas, by, yes }: ForkOptions): Promise<number> {
  const { runId, loaded, store, output, commands } = forked;
  const state = output.json ? null : loaded.state;
  return await driveRun({
    run: await agent.open(runId),
    store,
    output,
    commands,
    view: makeView({ output, runId, agent, deltas: deltas === true, state }),
    after: output.json ? 0 : loaded.seq,
    by: by ?? userName(),
    yes: yes === true,
  });
}

async function showFork({ runId, store, output, commands }: Fork): Promise<number> {
  if (!output.json) output.line('To resume: ', { style: 'cyan', text: commands.of('resume', runId) });
  else
    for (const { seq, event } of await readJournal(store, runId))
      output.data(orderEvent({ ...event, runId, seq }));
  return EXIT.done;
}
