/** The process of the right side: an agent and the runs API over a SQLite store. */
import { join } from 'node:path';
import { createRunsApp } from '../../../server/app.ts';
import { serveRuns } from '../../../server/serve.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { makeRefundAgent } from '../agent.ts';
import { readOrders, report } from '../server/process-messages.ts';
import { readSetup } from '../setup.ts';
import { REQUEST } from '../story.ts';

const HOST = '127.0.0.1';
const { folder, pace } = readSetup();
const store = sqlite(join(folder, 'runs.db'));
const agent = makeRefundAgent({ store, ledger: join(folder, 'chart-ledger.txt'), pace });
const orders = readOrders();
const app = createRunsApp({
  store,
  agents: new Map([[agent.name, agent]]),
  log: line => process.stderr.write(`${line}\n`),
});
const { port } = await serveRuns(app, { host: HOST, port: 0 });

report({ type: 'ready', port });
await orders.next('begin');
await app.pickUp();
const run = (await store.list({ limit: 1 })).runs[0] ?? (await begin());
report({ type: 'run', runId: run.runId });

async function begin(): Promise<{ runId: string }> {
  const body = JSON.stringify({ agent: agent.name, input: [REQUEST], stream: true });
  const headers = { host: HOST, 'content-type': 'application/json' };
  const answer = await app.request('/runs', { method: 'POST', headers, body });
  if (!answer.ok) throw new Error(`The run did not start: ${await answer.text()}`);
  return (await answer.json()) as { runId: string };
}
