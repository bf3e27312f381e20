import { serve } from '@hono/node-server';
import { createAgent } from 'agentchart';
import { modelFromEnv } from 'agentchart/adapters/model-from-env';
import { createChatHandler } from 'agentchart/ai-sdk-ui';
import { sqlite } from 'agentchart/stores/sqlite';
import { Hono } from 'hono';
import { lookUpOrder, refund } from './tools.ts';

const tools = [lookUpOrder, refund];
const agent = createAgent({ name: 'support', model: modelFromEnv(), tools, store: sqlite() });
const chat = createChatHandler(agent);
const app = new Hono();
app.all('/api/chat', c => chat(c.req.raw));
app.all('/api/chat/*', c => chat(c.req.raw));
serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 4200) }, ({ port }) => console.log(port));
