import type { Context, Hono } from 'hono';
import * as z from 'zod';
import { readBody } from '../read-body.ts';
import { pageOf } from '../responses/index.ts';
import type { RunsEnv } from '../runs-env.ts';
import { type Conversations, conversationObject } from './conversations.ts';

/** Adds the routes of `/v1/conversations`. */
export function addConversationRoutes(app: Hono<RunsEnv>, conversations: Conversations): void {
  const bodyOf = async (c: Context<RunsEnv>) =>
    await readBody(c.req.raw, z.unknown(), c.get('requestLimits'));

  app.post('/v1/conversations', async c => {
    const isEmpty = c.req.header('content-type') === undefined;
    const value = isEmpty ? undefined : await bodyOf(c);
    return c.json(conversationObject(await conversations.create(value, c.get('caller'))));
  });
  app.get('/v1/conversations/:id', async c =>
    c.json(conversationObject(await conversations.find(c.req.param('id'), c.get('caller')))),
  );
  app.post('/v1/conversations/:id', async c => {
    const value = await bodyOf(c);
    const updated = await conversations.update(c.req.param('id'), value, c.get('caller'));
    return c.json(conversationObject(updated));
  });
  app.delete('/v1/conversations/:id', async c => {
    const id = c.req.param('id');
    await conversations.delete(id, c.get('caller'));
    return c.json({ id, object: 'conversation.deleted', deleted: true });
  });
  app.get('/v1/conversations/:id/items', async c => {
    const items = await conversations.items(c.req.param('id'), c.get('caller'));
    return c.json(pageOf(items, c.req.query()));
  });
  app.post('/v1/conversations/:id/items', async c => {
    const value = await bodyOf(c);
    const items = await conversations.add(c.req.param('id'), value, c.get('caller'));
    return c.json(pageOf(items, { order: 'asc', limit: '100' }));
  });
  app.get('/v1/conversations/:id/items/:item', async c =>
    c.json(await conversations.item(c.req.param('id'), c.req.param('item'), c.get('caller'))),
  );
  app.delete('/v1/conversations/:id/items/:item', async c => {
    const { id, item } = c.req.param();
    return c.json(conversationObject(await conversations.deleteItem(id, item, c.get('caller'))));
  });
}
