/** The runs API as a process: `node runs-fixture.ts DB`. Prints its port. */
import { serve } from '@hono/node-server';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { runsApp } from '../../../server/index.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { calls, makeTool } from '../engine/agents.ts';

const agent = createAgent({
  name: 'payer',
  store: sqlite(process.argv[2] ?? ''),
  model: scripted([{ ...calls('pay'), text: 'I pay.' }, { text: 'Paid.' }]),
  tools: [makeTool('pay', { approval: true })],
});
const app = runsApp({ agents: [agent] });
serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => {
  process.stdout.write(`${port}\n`);
});
