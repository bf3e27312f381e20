import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { serve } from '@hono/node-server';
import * as z from 'zod';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent, tool } from '../../../agent/index.ts';
import { createChatHandler } from '../../../fronts/ai-sdk-ui/index.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import { textOf } from '../../../protocol/message.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { worker } from '../../../server/index.ts';
import { postgres } from '../../../stores/postgres.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { notes } from '../../../tools/notes/index.ts';

/**
 * A server of a chat that also works as a worker. `node chat-fixture.ts FOLDER STUDY_MS [DATABASE]`. Prints its port.
 *
 * The user is the header `x-user`. For each message the agent notes it and calls `study`, which takes STUDY_MS, or five
 * times as long for a message with `slowly`, and returns a result too large for the journal; then it answers with all
 * messages of the user. Files in FOLDER: `runs.db`, unless DATABASE is the address of a PostgreSQL database; `studied`, a
 * line `PROCESS MESSAGE` for each call of `study`.
 */

const [folder = '', studyMs = '', database] = process.argv.slice(2);

function speak({ transcript }: ModelRequest): ScriptedTurn {
  const said = transcript.flatMap((item, at) =>
    item.type === 'message' && item.role === 'user' ? [{ at, text: textOf(item) }] : [],
  );
  const { at, text } = said.at(-1) ?? { at: 0, text: '' };
  if (transcript.slice(at).some(({ type }) => type === 'tool_result'))
    return { text: `You said: ${said.map(message => message.text).join(' | ')}` };
  const path = `/memories/${said.length}.md`;
  return {
    toolCalls: [
      { name: 'memory', arguments: { command: 'create', path, file_text: text } },
      { name: 'study', arguments: { text } },
    ],
  };
}

const quiet = scripted([]);
const model: ModelAdapter = {
  ...quiet,
  stream: (request, options) => scripted([speak(request)]).stream({ ...request, transcript: [] }, options),
};
const study = tool({
  name: 'study',
  description: 'Studies a message.',
  input: z.object({ text: z.string() }),
  sideEffect: 'none',
  maxResultBytes: 2_048,
  run: async ({ text }, { signal }) => {
    appendFileSync(join(folder, 'studied'), `${process.pid} ${text}\n`);
    await delay(Number(studyMs) * (text.includes('slowly') ? 5 : 1), undefined, { signal });
    return Array.from({ length: 100 }, (_, page) => `Page ${page} of ${text}.`).join('\n');
  },
});
const store = database === undefined ? sqlite(join(folder, 'runs.db')) : postgres(database);
const agent = createAgent({ name: 'desk', model, store, tools: [notes({ by: 'user' }), study] });
const handler = createChatHandler(agent, {
  authorize: request => {
    const user = request.headers.get('x-user');
    return user === null ? null : { name: `user-${user}`, labels: { user } };
  },
});
worker(agent);
serve({ fetch: handler, port: 0, hostname: '127.0.0.1' }, ({ port }) => process.stdout.write(`${port}\n`));
