/** An AG-UI endpoint as a process: `node ag-ui-fixture.ts DB`. Prints its port. */
import { serve } from '@hono/node-server';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { createAgUiHandler } from '../../../fronts/ag-ui/index.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { calls, makeTool } from '../engine/agents.ts';

const agent = createAgent({
  name: 'payer',
  store: sqlite(process.argv[2] ?? ''),
  model: scripted([{ ...calls('pay'), text: 'I pay.' }, { text: 'Paid.' }]),
  tools: [makeTool('pay', { approval: true })],
});
serve({ fetch: createAgUiHandler(agent), port: 0, hostname: '127.0.0.1' }, ({ port }) => {
  process.stdout.write(`${port}\n`);
});
