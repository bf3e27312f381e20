import { appendFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { calls, makeTool } from '../engine/agents.ts';

/**
 * A process that begins the run, or concurrently decides its one gated call, or answers what its tool asks, as several people.
 * `node decision-race-fixture.ts FOLDER ABOUT begin` or `… FOLDER ABOUT NAME COUNT`; ABOUT: `approval` or `question`. It appends `NAME is ready` to FOLDER/told,
 * decides when the file FOLDER/go exists, and prints a JSON object with the decisions, `{ by, answer }` each. Every
 * execution of the tool appends a line to FOLDER/trace.
 */

const RUN = 'run_raced';
const CALL = 'call_0_0';

const [folder = '', about = '', name = '', count = '0'] = process.argv.slice(2);
const asks = about === 'question';

const store = sqlite(join(folder, 'runs.db'), { busyTimeoutMs: 60_000 });
const agent = createAgent({
  name: 'raced',
  store,
  model: scripted([calls('pay'), { text: 'done' }]),
  tools: [
    makeTool('pay', {
      approval: !asks,
      ...(asks && { prepare: ({ ask }) => ask({ key: 'who', message: 'Who?', schema: z.string() }) }),
      run: (_, { key }: { key: string }) => {
        appendFileSync(join(folder, 'trace'), `${name} ${key}\n`);
        return 'paid';
      },
    }),
  ],
});

if (name === 'begin') {
  const run = await agent.start('go', { runId: RUN });
  await run.settled();
} else {
  const people = Array.from({ length: Number(count) }, (_, index) => `${name}.${index}`);
  const runs = await Promise.all(people.map(() => agent.open(RUN)));
  appendFileSync(join(folder, 'told'), `${name} is ready\n`);
  while (!existsSync(join(folder, 'go'))) await delay(2);
  const decisions = await Promise.all(
    runs.map(async (run, index) => {
      const by = people[index] ?? '';
      if (asks && index % 3 !== 1)
        return { by, answer: await run.answer(CALL, { answers: { who: by }, by }) };
      if (index % 3 === 0) return { by, answer: await run.approve(CALL, { by }) };
      if (index % 3 === 1) return { by, answer: await run.reject(CALL, { by }) };
      return { by, answer: await run.answer(CALL, { output: by, by }) };
    }),
  );
  const settled = await runs[0]?.settled();
  process.stdout.write(JSON.stringify({ decisions, settled }));
}
await store.close();
