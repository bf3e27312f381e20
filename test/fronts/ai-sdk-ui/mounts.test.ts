import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import express from 'express';
import { Hono } from 'hono';
import { afterEach, expect, test } from 'vitest';
import { createAgent } from '../../../agent/index.ts';
import { createChatHandler } from '../../../fronts/ai-sdk-ui/index.ts';
import { memory } from '../../../stores/memory.ts';
import { PushedModel } from '../../support/engine/pushed-model.ts';
import { ChatPage, TOOLS } from '../../support/fronts/ai-sdk-ui/chat-page.ts';
import { until } from '../../support/server/runs-app.ts';

type Handler = (request: Request) => Promise<Response>;

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** Sends requests to a Node server. */
async function reach(app: express.Express): Promise<Handler> {
  const server = app.listen(0, '127.0.0.1');
  closing.push(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return async request => {
    const { pathname, search } = new URL(request.url);
    const body = request.method === 'POST' ? { body: await request.text() } : {};
    const { method, headers, signal } = request;
    return await fetch(`http://127.0.0.1:${port}${pathname}${search}`, { method, headers, signal, ...body });
  };
}

/** The route handlers of a Next app: `app/api/chat/route.ts` and `app/api/chat/[id]/stream/route.ts`. */
function nextApp(chat: Handler, { slash = '' } = {}): Handler {
  type RouteHandler = (request: Request, context: { params: Promise<{ id: string }> }) => Promise<Response>;
  const POST: RouteHandler = chat;
  const GET: RouteHandler = chat;
  return async request => {
    const url = new URL(request.url);
    const [, id = ''] = /^\/api\/chat\/([^/]+)\/stream$/.exec(url.pathname) ?? [];
    const params = Promise.resolve({ id: decodeURIComponent(id) });
    url.pathname += slash;
    if (request.method !== 'POST') return await GET(new Request(url, request), { params });
    const init = { method: 'POST', headers: request.headers, body: request.body, duplex: 'half' };
    return await POST(new Request(url, init as RequestInit), { params });
  };
}

const MOUNTS: [string, (chat: Handler) => Handler | Promise<Handler>][] = [
  [
    'Hono',
    chat => {
      const app = new Hono();
      app.all('/api/chat', c => chat(c.req.raw));
      app.all('/api/chat/*', c => chat(c.req.raw));
      return async request => await app.request(request);
    },
  ],
  ['Express', chat => reach(express().use('/api/chat', getRequestListener(chat)))],
  ['Next, as a route handler', chat => nextApp(chat)],
  ['Next with trailing slashes', chat => nextApp(chat, { slash: '/' })],
];

test.each(MOUNTS)('a page posts, stops, resumes and approves: %s', async (_, mount) => {
  const model = new PushedModel();
  const agent = createAgent({ name: 'desk', model, tools: TOOLS, store: memory() });
  const handler = await mount(createChatHandler(agent));
  const page = new ChatPage(handler);
  const sent = page.chat.sendMessage({ text: 'go' });
  model.push({ type: 'text', text: 'I look ' });
  await until(() => (page.messages.length > 1 && page.text === 'I look ' ? true : undefined));
  await page.chat.stop();
  await sent;
  const reloaded = new ChatPage(handler, { messages: page.messages.slice(0, 1) });
  const resumed = reloaded.chat.resumeStream();
  await until(() => (reloaded.messages.length > 1 && reloaded.text === 'I look ' ? true : undefined));
  const input = { cents: 5 };
  model.end('I look at it.', [
    { callId: 'c1', name: 'refund', arguments: JSON.stringify(input), input, executedBy: 'engine' },
  ]);
  await resumed;
  expect(reloaded.tools()).toEqual(['tool-refund: approval-requested']);
  model.end('Done.');
  await reloaded.decide(reloaded.open()[0], true);
  expect(reloaded.text).toBe('I look at it.|Done.');
  expect(reloaded.last.id).toBe(page.last.id);
  await reloaded.chat.resumeStream();
  expect([...page.errors, ...reloaded.errors]).toEqual([]);
});

test('a body that a parser has read before is reported', async () => {
  const chat = createChatHandler(createAgent({ name: 'desk', model: new PushedModel(), store: memory() }));
  const handler = await reach(express().use(express.json()).use('/api/chat', getRequestListener(chat)));
  const headers = { 'content-type': 'application/json' };
  const response = await handler(
    new Request('http://shop.example/api/chat', { method: 'POST', headers, body: '{"id":"c"}' }),
  );
  expect(response.status).toBe(400);
  expect(await response.text()).toContain('before a body parser');
});
