import { serve } from '@hono/node-server';
import { createChatHandler } from 'agentchart/ai-sdk-ui';
import { runsApp } from 'agentchart/server';
import { Hono } from 'hono';
import agent from './agent.ts';
import { authorize } from './people.ts';

const chat = createChatHandler(agent, { authorize });
const app = new Hono();
app.all('/api/chat', c => chat(c.req.raw));
app.all('/api/chat/*', c => chat(c.req.raw));
app.route('/api', runsApp({ agents: [agent], authorize }));
serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 4200) }, ({ port }) => console.log(port));
