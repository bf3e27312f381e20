import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { tool } from '../../../tools/tool.ts';

/**
 * A process with an agent that starts three researches in the background, is written to meanwhile, and uses their outcomes.
 * `node background-fixture.ts FOLDER`. Files in FOLDER: `runs.db`; `bought`, the key of each purchase of a research, a line
 * each. Prints how the run settled, as JSON.
 */

const [folder = ''] = process.argv.slice(2);
const TOP = 'run_top';
const bought = join(folder, 'bought');

function keys(): string[] {
  return existsSync(bought) ? readFileSync(bought, 'utf8').split('\n') : [];
}

const buy = tool({
  name: 'buy',
  description: 'Buys a paper.',
  input: z.object({}),
  run: async (_, { key }) => {
    appendFileSync(bought, `${key}\n`);
    return await new Promise<string>(resolve => setTimeout(resolve, 20, 'bought'));
  },
  reconcile: (_, { key }) =>
    keys().includes(key) ? { happened: true, output: 'bought' } : { happened: false, final: true },
});

const researcher = createAgent({
  name: 'researcher',
  model: scripted([
    { toolCalls: [{ name: 'buy' }], delayMs: 20 },
    { text: 'Found.', delayMs: 20 },
  ]),
  tools: [buy],
});

const topics = ['red', 'green', 'blue'];
const research = topics.map(input => ({ name: 'research', arguments: { input } }));
const store = sqlite(join(folder, 'runs.db'));
const agent = createAgent({
  name: 'editor',
  model: scripted([
    { toolCalls: research, delayMs: 20 },
    ...new Array(8).fill({ text: 'Noted.', delayMs: 20 }),
  ]),
  tools: [researcher.asTool({ name: 'research', description: 'Researches.', background: true })],
  store,
});

const known = await store.get(TOP);
const run =
  known === undefined ? await agent.start('Compare the colours.', { runId: TOP }) : await agent.open(TOP);
const isWrittenTo = (await store.read(TOP)).some(
  ({ event }) => event.type === 'message.received' && event.from === undefined,
);
if (!isWrittenTo) await run.send('And hurry.');
const { status } = await run.settled();
await store.close();
process.stdout.write(JSON.stringify({ status }));
