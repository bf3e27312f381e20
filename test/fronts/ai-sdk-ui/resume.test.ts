import { join } from 'node:path';
import type { UIMessage } from 'ai';
import { expect, test } from 'vitest';
import type { Role } from '../../../access/role.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';
import { createChatHandler } from '../../../fronts/ai-sdk-ui/index.ts';
import { ProviderError } from '../../../protocol/error.ts';
import { memory } from '../../../stores/memory.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { PushedModel } from '../../support/engine/pushed-model.ts';
import { ChatPage, TOOLS, toolsIn } from '../../support/fronts/ai-sdk-ui/chat-page.ts';
import { until } from '../../support/server/runs-app.ts';
import { makeTemporaryFolder } from '../../support/temporary-folders.ts';

const shown = (page: ChatPage) => (page.messages.length > 1 ? page.text : '');

test('a page that resumes in another process gets the message whole, and follows it while it streams', async () => {
  const file = join(makeTemporaryFolder('chat'), 'runs.db');
  const model = new PushedModel();
  const stores = [sqlite(file), sqlite(file)] as const;
  const [one, other] = stores.map(store => createAgent({ name: 'teller', model, tools: TOOLS, store }));
  if (one === undefined || other === undefined) throw new Error('no agents');
  const page = new ChatPage(one);
  const sent = page.chat.sendMessage({ text: 'go' });
  model.push(
    { type: 'text', text: 'Once upon ' },
    { type: 'call_started', index: 0, name: 'look', callId: 'c1' },
    { type: 'call_arguments', index: 0, text: '{"a' },
  );
  await until(() => (shown(page) === 'Once upon ' ? true : undefined));
  await until(() => (toolsIn(page.last)[0]?.state === 'input-streaming' ? true : undefined));
  await page.chat.stop();
  await sent;
  const reloaded = new ChatPage(other, { messages: page.messages.slice(0, 1) });
  const resumed = reloaded.chat.resumeStream();
  await until(() => (shown(reloaded) === 'Once upon ' ? true : undefined));
  model.push({ type: 'text', text: 'a time' });
  await until(() => (shown(reloaded).includes('a time') ? true : undefined));
  model.end('Once upon a time.');
  await resumed;
  expect(reloaded.text).toBe('Once upon a time.');
  expect(reloaded.last.id).toBe(page.last.id);
  expect(reloaded.errors).toEqual([]);
  const { url = '' } = reloaded.requests.at(-1) ?? {};
  expect(url).toBe('http://shop.example/api/chat/chat%201/stream');
  await reloaded.chat.resumeStream();
  expect(reloaded.chat.status).toBe('ready');
  for (const store of stores) await store.close();
});

test('what a failed attempt said is dropped', async () => {
  const model = new PushedModel();
  const agent = createAgent({ name: 'teller', model, store: memory(), retry: { baseMs: 1, maxMs: 1 } });
  const page = new ChatPage(agent);
  const sent = page.chat.sendMessage({ text: 'go' });
  model.push({ type: 'text', text: 'Wrong' });
  await until(() => (shown(page) === 'Wrong' ? true : undefined));
  model.push(
    new ProviderError('overloaded', {
      code: 'overloaded',
      status: 529,
      retryable: true,
      retryAfterMs: null,
      raw: null,
      provider: 'pushed',
      model: 'pushed',
    }),
    { type: 'text', text: 'Right' },
  );
  model.end('Right.');
  await sent;
  expect(page.last.parts.flatMap(part => (part.type === 'text' ? [part.text] : []))).toEqual(['Right.']);
});

test('a caller chats only with runs that have its labels, and its name is recorded', async () => {
  const REFUND = { toolCalls: [{ name: 'refund', arguments: { cents: 5 } }] };
  const agent = createAgent({
    name: 'desk',
    model: scripted([REFUND, { text: 'Done.' }]),
    tools: TOOLS,
    store: memory(),
  });
  const as = (name: string) =>
    createChatHandler(agent, {
      authorize: () => (name === 'nobody' ? null : { name, role: 'operator', labels: { user: name } }),
    });
  const ann = new ChatPage(as('ann'));
  await ann.chat.sendMessage({ text: 'go' });
  const bert = new ChatPage(as('bert'), { messages: ann.messages });
  await bert.decide(bert.open()[0], true);
  expect(bert.errors).toHaveLength(1);
  const read = async (name: string) => await as(name)(new Request('http://shop.example/api/chat/chat%201'));
  expect(await (await read('bert')).json()).toEqual([]);
  expect((await read('nobody')).status).toBe(401);
  await ann.decide(ann.open()[0], true);
  expect(ann.text).toBe('Done.');
  const { runs } = await agent.store.list();
  expect(runs.map(({ labels, thread }) => [labels, thread])).toEqual([[{ user: 'ann' }, 'chat 1']]);
  const events = (await agent.store.read(runs[0]?.runId ?? '')).map(({ event }) => event);
  expect(events.find(({ type }) => type === 'approval.decided')).toMatchObject({ by: 'ann' });
});

test('a client, who may use /v1 alone, neither reads, starts, decides nor stops a chat', async () => {
  const REFUND = { toolCalls: [{ name: 'refund', arguments: { cents: 5 } }] };
  const model = scripted([REFUND, { text: 'Done.' }]);
  const agent = createAgent({ name: 'desk', model, tools: TOOLS, store: memory() });
  const as = (role: Role) =>
    createChatHandler(agent, { authorize: () => ({ name: role, role, labels: {} }) });
  const operator = new ChatPage(as('operator'));
  await operator.chat.sendMessage({ text: 'go' });
  const before = await agent.store.list();
  for (const [method, path] of [
    ['GET', '/chat%201'],
    ['HEAD', '/chat%201'],
    ['GET', '/chat%201/stream'],
    ['POST', '/chat%201/stop'],
  ] as const) {
    const response = await as('client')(new Request(`http://shop.example/api/chat${path}`, { method }));
    expect([method, path, response.status]).toEqual([method, path, 403]);
  }
  const [asking, deciding] = [1, 2].map(
    () => new ChatPage(as('client'), { messages: structuredClone(operator.messages) }),
  );
  await asking?.chat.sendMessage({ text: 'more' });
  await deciding?.decide(operator.open()[0], true);
  expect([asking?.errors.length, deciding?.errors.length]).toEqual([1, 1]);
  expect(await agent.store.list()).toEqual(before);
});

test('a call of a sub-agent is approved in the message of the run above it', async () => {
  const REFUND = { toolCalls: [{ name: 'refund', arguments: { cents: 5 } }] };
  const clerk = createAgent({ name: 'clerk', model: scripted([REFUND, { text: 'Paid.' }]), tools: TOOLS });
  const agent = createAgent({
    name: 'desk',
    model: scripted([
      { toolCalls: [{ name: 'ask_clerk', arguments: { input: 'pay' } }] },
      { text: 'All paid.' },
    ]),
    tools: [clerk.asTool({ name: 'ask_clerk', description: 'Pays.' })],
    store: memory(),
  });
  const page = new ChatPage(agent);
  await page.chat.sendMessage({ text: 'go' });
  expect(page.tools()).toEqual(['tool-ask_clerk: output-available', 'tool-refund: approval-requested']);
  await page.decide(page.open()[0], true);
  expect(page.tools().toSorted()).toEqual([
    'tool-ask_clerk: output-available',
    'tool-refund: output-available',
  ]);
  expect(page.text).toBe('All paid.');
  expect(page.requests).toHaveLength(2);
  expect(page.errors).toEqual([]);
});

test('refuses what useChat does not post', async () => {
  const handler = createChatHandler(createAgent({ name: 'a', model: scripted([]), store: memory() }), {
    bodyBytes: 100,
  });
  const post = async (body: string) =>
    (await handler(new Request('http://shop.example/api/chat', { method: 'POST', body }))).status;
  expect(await post('{')).toBe(400);
  expect(await post('{"id":"c","messages":[]}')).toBe(400);
  expect(await post('x'.repeat(101))).toBe(413);
  expect(await post('{"id":"c","messages":[{"id":"u","role":"user","parts":[]}]}')).toBe(400);
  expect((await handler(new Request('http://shop.example/api/chat', { method: 'PUT' }))).status).toBe(405);
});

test('an approver decides and does nothing else; a viewer only reads', async () => {
  const REFUND = { toolCalls: [{ name: 'refund', arguments: { cents: 5 } }] };
  const model = scripted([REFUND, { text: 'Done.' }]);
  const agent = createAgent({ name: 'desk', model, tools: TOOLS, store: memory() });
  const as = (role: Role) =>
    createChatHandler(agent, { authorize: () => ({ name: role, role, labels: {} }) });
  await new ChatPage(as('operator')).chat.sendMessage({ text: 'go' });
  const read = async (role: Role) =>
    (await (await as(role)(new Request('http://shop.example/api/chat/chat%201'))).json()) as UIMessage[];
  for (const role of ['viewer', 'approver'] as const) {
    const page = new ChatPage(as(role), { messages: await read(role) });
    await page.chat.sendMessage({ text: 'more' });
    await page.chat.regenerate({ messageId: page.messages[1]?.id ?? '' });
    const stop = new Request('http://shop.example/api/chat/chat%201/stop', { method: 'POST' });
    expect((await as(role)(stop)).status).toBe(403);
    expect(page.errors).toHaveLength(2);
  }
  expect(new ChatPage(as('viewer'), { messages: await read('viewer') }).open()).toEqual([]);
  const viewer = new ChatPage(as('viewer'), { messages: await read('approver') });
  await viewer.decide(viewer.open()[0], true);
  expect(viewer.errors).toHaveLength(1);
  const approver = new ChatPage(as('approver'), { messages: await read('approver') });
  await approver.decide(approver.open()[0], true);
  expect(approver.errors).toEqual([]);
  expect(approver.text).toBe('Done.');
  expect((await agent.store.list()).runs).toMatchObject([{ status: 'finished' }]);
});
