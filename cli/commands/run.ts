// cli/commands: what each command does. `cli/program/` declares their options and arguments.

import { EngineError } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { parseLabels } from '../../protocol/listing/label.ts';
import type { Store } from '../../protocol/store.ts';
import { withAgent } from '../change-run.ts';
import { detectEarlyExit } from '../detect-early-exit.ts';
import { driveRun } from '../drive-run.ts';
import { findRun } from '../find-run.ts';
import { type Launch, makeAgent, readLaunch, recallLaunch } from '../launch.ts';
import { storeFile, withStore } from '../open-store.ts';
import { type DriveOptions, parseJson, readPiped, userName } from '../options.ts';
import { CommandLines } from '../render/command-lines.ts';
import { makeView } from '../render/make-view.ts';
import { Output } from '../render/output.ts';

export type RunCommandOptions = DriveOptions & {
  stream: boolean;
  continues?: string;
  context?: string;
  label?: string[];
  title?: string;
};

/** Implements `agentchart run`. A run that continues another uses its agent and model by default. */
export async function run(words: readonly string[], options: RunCommandOptions): Promise<number> {
  const input = await readInput(words);
  const runContext = options.context === undefined ? undefined : parseJson(options.context, '--context');
  const labels = options.label === undefined ? undefined : parseLabels(options.label);
  const output = new Output({ json: options.json === true });
  const file = storeFile(options.db);
  return await detectEarlyExit(() =>
    withStore(file, async store => {
      const continues =
        options.continues === undefined ? undefined : (await findRun(store, options.continues)).runId;
      const launch = await chooseLaunch(store, continues, options.agent);
      const agent = await makeAgent(launch, store);
      return await withAgent(agent, output, async () => {
        const started = await agent.start(input, {
          stream: options.stream,
          launch,
          runContext,
          ...omitUndefined({ continues, labels, title: options.title }),
        });
        const view = makeView({
          output,
          runId: started.id,
          agent,
          deltas: options.deltas === true,
          begin: null,
        });
        return await driveRun({
          run: started,
          store,
          output,
          view,
          after: 0,
          commands: new CommandLines(file),
          by: options.by ?? userName(),
          yes: options.yes === true,
        });
      });
    }),
  );
}

async function chooseLaunch(
  store: Store,
  continues: string | undefined,
  module: string | undefined,
): Promise<Launch> {
  const requested = readLaunch(module);
  if (continues === undefined) return requested;
  return { ...(await recallLaunch(store, continues)), ...requested };
}

async function readInput(words: readonly string[]): Promise<string> {
  const input = words.length > 0 ? words.join(' ') : await readPiped();
  if (input.trim() !== '') return input;
  throw new EngineError(
    'input-invalid',
    'No input. Give it as an argument, such as: run "Refund order A-1001", or on stdin.',
  );
}
