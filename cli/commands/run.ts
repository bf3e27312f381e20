import { EngineError } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { parseLabels } from '../../protocol/listing/label.ts';
import { driveRun } from '../drive-run.ts';
import { makeAgent, readLaunch, recallLaunch, withAgent } from '../launch.ts';
import { type DriveOptions, parseJson, readPiped, storeFile } from '../options.ts';
import { detectEarlyExit } from '../process-end.ts';
import { CommandLines } from '../render/command-lines.ts';
import { Output } from '../render/output.ts';
import { findRun, withStore } from '../store.ts';

type RunOptions = DriveOptions & {
  stream: boolean;
  continues?: string;
  context?: string;
  label?: string[];
  title?: string;
};

/** Implements `agentchart run`. A run that continues another uses its agent and model by default. */
export async function run(words: readonly string[], options: RunOptions): Promise<number> {
  const input = await readInput(words);
  const runContext = options.context === undefined ? undefined : parseJson(options.context, '--context');
  const labels = options.label === undefined ? undefined : parseLabels(options.label);
  const output = new Output({ json: options.json === true });
  const file = storeFile(options.db);
  const { stream, title } = options;
  return await detectEarlyExit(() =>
    withStore(file, async store => {
      const continues =
        options.continues === undefined ? undefined : (await findRun(store, options.continues)).runId;
      const recalled = continues === undefined ? {} : await recallLaunch(store, continues);
      const launch = { ...recalled, ...readLaunch(options.agent) };
      const agent = await makeAgent(launch, store);
      return await withAgent(agent, output, async () => {
        const further = omitUndefined({ continues, labels, title });
        const started = await agent.start(input, { stream, launch, runContext, ...further });
        const commands = new CommandLines(file);
        return await driveRun({ run: started, agent, store, output, commands, begin: null, options });
      });
    }),
  );
}

async function readInput(words: readonly string[]): Promise<string> {
  const input = words.length > 0 ? words.join(' ') : await readPiped();
  if (input.trim() !== '') return input;
  throw new EngineError(
    'input-invalid',
    'No input. Give it as an argument, such as: run "Refund order A-1001", or on stdin.',
  );
}
