import { createInterface } from 'node:readline';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { postgres } from '../../../stores/postgres.ts';
import { sqlite } from '../../../stores/sqlite.ts';

/**
 * A process that starts runs in threads. `node thread-fixture.ts STORE`, a file or the address of a PostgreSQL database.
 * Each line of its input is `{ thread, input }`, carried out at once; it prints `{ input, runId }` once that run has settled.
 */

const [target = ''] = process.argv.slice(2);
const store = target.startsWith('postgres://') ? postgres(target) : sqlite(target);
const model = scripted(Array.from({ length: 1_000 }, (_, turn) => ({ text: `Answer ${turn}.` })));
const agent = createAgent({ name: 'talker', model, store });

for await (const line of createInterface({ input: process.stdin })) {
  const { thread, input } = JSON.parse(line);
  void talk(thread, input);
}

async function talk(thread: string, input: string): Promise<void> {
  const run = await agent.start(input, { thread, labels: { user: '7' } });
  await run.settled();
  process.stdout.write(`${JSON.stringify({ input, runId: run.id })}\n`);
}
