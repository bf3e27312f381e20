/**
 * A chat over several runs, a thread: each message is a run that continues the one before, in this process or a later one.
 * `/image FILE TEXT` shows the model an image.
 *
 *   AGENTCHART_MODEL=anthropic:claude-sonnet-5 node chat.ts THREAD
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

const thread = process.argv[2] ?? 'main';
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

const latest = await agent.thread(thread).latest();
if (latest !== undefined) console.log(`(continues "${latest.title}")`);

process.stderr.write('> ');
for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() !== '') {
    const run = await agent.start(await readInput(line), { thread });
    for await (const piece of run.text()) process.stdout.write(piece);
    const settled = await run.settled();
    console.log(settled.status === 'failed' ? settled.error.message : '');
  }
  process.stderr.write('> ');
}
await store.close();
