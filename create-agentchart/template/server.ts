/** The page, the chat (`/story`) and the decisions (`/inbox`, `/runs`). Runs are driven in this process. */
import { serve } from '@hono/node-server';
import { serveStatic } from '@hono/node-server/serve-static';
import { createStoryHandler, runsApp } from 'agentchart/server';
import { Hono } from 'hono';
import { createDesk } from './agent.ts';
import { chooseModel } from './model.ts';
import { authorize, hasOnlyExamples } from './people.ts';
import { store } from './store.ts';

if (hasOnlyExamples && process.env.NODE_ENV === 'production')
  throw new Error('Set PEOPLE: a JSON object from keys to people, as people.ts describes it.');

const agent = createDesk({ model: chooseModel(), store });
const story = createStoryHandler(agent, { authorize });
const runs = runsApp({ agents: [agent], authorize });

const app = new Hono();
if (hasOnlyExamples)
  app.use(async (c, next) => {
    // Another site's name for this address must not reach people whose keys are known.
    const isLocal = ['127.0.0.1', 'localhost'].includes(new URL(c.req.url).hostname);
    return isLocal ? await next() : c.text('Open http://127.0.0.1, or set PEOPLE.', 403);
  });
app.get('/healthz', async c => {
  await store.list({ limit: 1 });
  return c.json({ ok: true });
});
app.all('/story', c => story(c.req.raw));
app.all('/story/*', c => story(c.req.raw));
app.route('/', runs);
app.use('/*', serveStatic({ root: 'page' }));

const hostname = process.env.HOST ?? (hasOnlyExamples ? '127.0.0.1' : '0.0.0.0');
const server = serve({ fetch: app.fetch, hostname, port: Number(process.env.PORT ?? 3000) }, ({ port }) => {
  console.log(`http://127.0.0.1:${port}`);
  if (!process.env.AGENTCHART_MODEL)
    console.log('A scripted stand-in plays the model: set AGENTCHART_MODEL and a key in .env for one.');
});

/** Ends the streams. Runs that are not done are in the store, and continue at the next start. */
async function stop(): Promise<void> {
  story.close();
  runs.close();
  server.close();
  if ('closeAllConnections' in server) server.closeAllConnections();
  await store.close();
  process.exit();
}
process.once('SIGTERM', stop);
process.once('SIGINT', stop);
