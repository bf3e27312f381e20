/**
 * A chat over several runs: each message is a run that continues the one before, in this process or a later one.
 * `/image FILE TEXT` shows the model an image.
 *
 *   AGENTCHART_MODEL=anthropic:claude-sonnet-5 node chat.ts CHAT
 */
import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { createAgent, type Item } from 'agentchart';
import { modelFromEnv } from 'agentchart/adapters/model-from-env';
import { sqlite } from 'agentchart/stores/sqlite';

const TYPES = new Map([
  ['.png', 'image/png'],
  ['.jpg', 'image/jpeg'],
  ['.webp', 'image/webp'],
]);

const chat = process.argv[2] ?? 'main';
const store = sqlite(process.env.RUNS_DB ?? 'chats.db');
const agent = createAgent({ name: 'chat', model: modelFromEnv(), store });

/** A line of the user as input of a run. */
async function readInput(line: string): Promise<Item[]> {
  const [, file, words = ''] = /^\/image (\S+)(?: (.*))?$/.exec(line) ?? [];
  if (file === undefined) {
    return [{ type: 'message', role: 'user', content: [{ type: 'text', text: line }] }];
  }
  const type = TYPES.get(extname(file)) ?? 'image/png';
  const url = `data:${type};base64,${await readFile(file, 'base64')}`;
  return [
    {
      type: 'message',
      role: 'user',
      content: [
        { type: 'text', text: words },
        { type: 'image', url },
      ],
    },
  ];
}

const { runs } = await store.list({ agent: agent.name, labels: { chat }, status: 'finished', limit: 1 });
let last = runs[0]?.runId;
if (last !== undefined) console.log(`(continues "${runs[0]?.title}")`);

process.stderr.write('> ');
for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() !== '') {
    const continues = last === undefined ? {} : { continues: last };
    const run = await agent.start(await readInput(line), { ...continues, chat });
    for await (const piece of run.text()) process.stdout.write(piece);
    const settled = await run.settled();
    if (settled.status === 'finished') last = run.id;
    console.log(settled.status === 'failed' ? settled.error.message : '');
  }
  process.stderr.write('> ');
}
await store.close();
