/**
 * A chat in React with approvals: the server of the page and its runs.
 *
 *   npx vite build
 *   AGENTCHART_MODEL=anthropic:claude-sonnet-5 node server.ts
 */
import { fileURLToPath } from 'node:url';
import { serve } from '@hono/node-server';
import { serveStatic } from '@hono/node-server/serve-static';
import { createAgent, tool } from 'agentchart';
import { modelFromEnv } from 'agentchart/adapters/model-from-env';
import { runsApp } from 'agentchart/server';
import { sqlite } from 'agentchart/stores/sqlite';
import { Hono } from 'hono';
import * as z from 'zod';

const refund = tool({
  name: 'refund',
  description: 'Refunds an order.',
  input: z.object({ orderId: z.string(), cents: z.int().positive() }),
  approval: true,
  run: ({ cents }) => ({ refunded: cents }),
});

const agent = createAgent({
  name: 'refunds',
  model: modelFromEnv(),
  instructions: 'You refund orders.',
  tools: [refund],
  store: sqlite(process.env.RUNS_DB ?? 'refunds.db'),
});

const app = new Hono();
app.route('/', runsApp({ agents: [agent] }));
app.use('/*', serveStatic({ root: fileURLToPath(new URL('dist', import.meta.url)) }));
serve({ fetch: app.fetch, hostname: '127.0.0.1', port: Number(process.env.PORT ?? 4300) }, ({ port }) => {
  console.log(`http://127.0.0.1:${port}`);
});
