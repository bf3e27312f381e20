import { invalidInput } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Action } from '../command-table.ts';
import { driveRun } from '../drive-run.ts';
import { makeAgent, readLaunch, recallLaunch, withAgent } from '../launch.ts';
import { readPiped, storeFile, userName } from '../options.ts';
import { detectEarlyExit } from '../process-end.ts';
import { CommandLines } from '../render/command-lines.ts';
import { Output } from '../render/output.ts';
import { findRun, withStore } from '../store.ts';

/** A run that continues another uses its agent and model by default. */
export const run: Action<'run'> = async given => {
  const { input: words, context: runContext, label: labels, stream, title, ...options } = given;
  const input = words.length > 0 ? words.join(' ') : await readPiped();
  if (input.trim() === '')
    throw invalidInput('No input. Give it as an argument, such as: run "Refund order A-1001", or on stdin.');
  const by = options.by ?? userName();
  const output = new Output(options);
  const file = storeFile(options.db);
  return await detectEarlyExit(() =>
    withStore(file, async store => {
      const continues =
        options.continues === undefined ? undefined : (await findRun(store, options.continues)).runId;
      const recalled = continues === undefined ? {} : await recallLaunch(store, continues);
      const launch = { ...recalled, ...readLaunch(options.agent) };
      const agent = await makeAgent(launch, store);
      return await withAgent(agent, output, async () => {
        const further = omitUndefined({ continues, labels, title });
        const started = await agent.start(input, { stream, launch, runContext, by, ...further });
        const commands = new CommandLines(file);
        return await driveRun({ run: started, agent, store, output, commands, begin: null, options });
      });
    }),
  );
};
