import { loadRun } from '../../engine/journal/load-run.ts';
import { itemsOf } from '../../engine/log/command.ts';
import { invalidInput } from '../../protocol/error.ts';
import type { Item } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { readThreadId } from '../../protocol/listing/label.ts';
import type { Action } from '../command-table.ts';
import { driveRun } from '../drive-run.ts';
import { makeAgent, readLaunch, recallLaunch, withAgent } from '../launch.ts';
import { readPiped, storeFile, userName } from '../options.ts';
import { detectEarlyExit } from '../process-end.ts';
import { withPrompt } from '../prompt-input.ts';
import { CommandLines } from '../render/command-lines.ts';
import { Output } from '../render/output.ts';
import { findRun, withStore } from '../store.ts';

/** A run that continues another, or a thread, uses its agent and model by default. */
export const run: Action<'run'> = async given => {
  const { input: words, context: runContext, label: labels = {}, thread, stream, title, ...more } = given;
  const { prompt, arg: args = [], ...options } = more;
  if (prompt === undefined && args.length > 0)
    throw invalidInput('--arg is for the prompt of a server. Add --prompt NAME.');
  const text = words.length > 0 || prompt !== undefined ? words.join(' ') : await readPiped();
  if (prompt === undefined && text.trim() === '')
    throw invalidInput('No input. Give it as an argument, such as: run "Refund order A-1001", or on stdin.');
  if (thread !== undefined) readThreadId(thread);
  const by = options.by ?? userName();
  const output = new Output(options);
  const file = storeFile(options.db);
  return await detectEarlyExit(() =>
    withStore(file, async store => {
      const continues =
        options.continues === undefined ? undefined : (await findRun(store, options.continues)).runId;
      const latest =
        thread === undefined
          ? undefined
          : (await store.list({ thread: { id: thread, labels }, latest: true })).runs[0];
      const before = continues ?? latest?.runId;
      const recalled = before === undefined ? {} : await recallLaunch(store, before);
      const launch = { ...recalled, ...readLaunch(options.agent) };
      const agent = await makeAgent(launch, store);
      return await withAgent(agent, output, async () => {
        const known = latest && (await loadRun(store, latest.runId));
        const further = omitUndefined({ continues, labels: given.label, title, thread });
        const begin = async (input: string | readonly Item[]) => {
          const started = await agent.start(input, { stream, launch, runContext, by, ...further });
          const seen = known !== undefined && started.id === latest?.runId ? known : null;
          const commands = new CommandLines(file);
          return await driveRun({ run: started, agent, store, output, commands, begin: seen, options });
        };
        if (prompt === undefined) return await begin(text);
        const rest = text.trim() === '' ? [] : itemsOf(text);
        return await withPrompt(agent, { prompt, texts: args }, items => begin([...items, ...rest]));
      });
    }),
  );
};
