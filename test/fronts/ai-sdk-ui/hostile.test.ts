import { expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';
import { createChatHandler } from '../../../fronts/ai-sdk-ui/index.ts';
import { memory } from '../../../stores/memory.ts';
import { calls, clientTool, makeTool } from '../../support/engine/agents.ts';
import { ChatPage } from '../../support/fronts/ai-sdk-ui/chat-page.ts';

const post = (body: unknown) =>
  new Request('http://shop.example/api/chat', {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });

function openChat() {
  const agent = createAgent({
    name: 'desk',
    store: memory(),
    model: scripted([calls('pay', 'ask'), { text: 'Done.' }]),
    tools: [makeTool('pay', { approval: true }), clientTool('ask')],
  });
  const handler = createChatHandler(agent);
  return { agent, handler, page: new ChatPage(handler) };
}

test.each([
  ['nested too deeply', depth => `{"id":"chat 1","messages":${'['.repeat(depth)}${']'.repeat(depth)}}`],
  [
    'an output nested too deeply',
    depth =>
      JSON.stringify({
        id: 'chat 1',
        messages: [
          {
            id: 'm',
            role: 'assistant',
            parts: [{ type: 'tool-ask', toolCallId: 'call_0_1', state: 'output-available', output: 'DEEP' }],
          },
        ],
      }).replace('"DEEP"', '['.repeat(depth) + ']'.repeat(depth)),
  ],
] as [string, (depth: number) => string][])('a body with %s is refused', async (_, body) => {
  const { handler, page } = openChat();
  await page.chat.sendMessage({ text: 'go' });
  for (const depth of [300, 100_000]) {
    const response = await handler(post(body(depth)));
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code: 'input-invalid' } });
  }
});

test('parts of the wrong shape decide nothing', async () => {
  const { agent, handler, page } = openChat();
  await page.chat.sendMessage({ text: 'go' });
  const { id } = page.last;
  const own = `${id}:call_0_0`;
  const part = { type: 'tool-pay', toolCallId: 'call_0_0', state: 'approval-responded' };
  const parts: object[] = [
    { ...part, approval: null },
    { ...part, approval: 'yes' },
    { ...part, approval: { id: own, approved: 'true' } },
    { ...part, approval: { id: `${id}:other`, approved: true } },
    { ...part, approval: { id: 'run_0.1:call_0_0', approved: true } },
    { ...part, toolCallId: { toString: 'call_0_0' }, approval: { id: own, approved: true } },
    { ...part, toolCallId: '/call_0_0', approval: { id: own, approved: true } },
    { ...part, state: 'output-available', output: 'paid' },
    { type: 'dynamic-tool', toolName: 'ask', toolCallId: 'call_0_1', state: 'input-available', output: 1 },
    { type: '__proto__' },
  ];
  const answered = await handler(
    post({ id: 'chat 1', messageId: id, messages: [{ id, role: 'assistant', parts }] }),
  );
  expect(answered.status).toBe(200);
  expect(await answered.text()).toContain('[DONE]');
  const foreign = { id: 'u', role: 'user', parts: [{ ...part, approval: { id: own, approved: true } }] };
  expect((await handler(post({ id: 'chat 1', messages: [foreign] }))).status).toBe(400);
  const [record] = (await agent.store.list()).runs;
  const run = await agent.open(record?.runId ?? '');
  expect(await run.settled()).toMatchObject({
    status: 'waiting',
    open: [
      { kind: 'approval', name: 'pay' },
      { kind: 'result', name: 'ask' },
    ],
  });
});

test('an error that is no text answers a call of the page with a plain one', async () => {
  const { agent, handler, page } = openChat();
  await page.chat.sendMessage({ text: 'go' });
  const { id } = page.last;
  const errorText = { toString: 'no function' };
  const parts = [{ type: 'tool-ask', toolCallId: 'call_0_1', state: 'output-error', errorText }];
  const answered = await handler(post({ id: 'chat 1', messages: [{ id, role: 'assistant', parts }] }));
  expect(answered.status).toBe(200);
  expect(await answered.text()).toContain('"errorText":"The call failed."');
  expect((await agent.store.list()).runs).toMatchObject([{ status: 'waiting' }]);
});

test.each(['é漢🖌', 'a/b', '%2F', ' ', 'stream', '?x=1#y'])('a chat may be called %j', async id => {
  const { handler } = openChat();
  const page = new ChatPage(handler, { id });
  await page.chat.sendMessage({ text: 'go' });
  expect(page.errors).toEqual([]);
  expect(page.open()).toHaveLength(1);
  await page.chat.resumeStream();
  expect(page.errors).toEqual([]);
  expect(page.requests.at(-1)?.method).toBe('GET');
});

test('the same message posted by two tabs at once is one message', async () => {
  const { agent, handler } = openChat();
  const message = { id: 'u1', role: 'user', parts: [{ type: 'text', text: 'go' }] };
  const both = await Promise.all(
    [1, 2].map(async () => await (await handler(post({ id: 'c', messages: [message] }))).text()),
  );
  for (const answer of both) expect(answer).toContain('tool-approval-request');
  expect((await agent.store.list()).runs).toHaveLength(1);
});

test('HEAD says what GET would, without a stream', async () => {
  const { handler, page } = openChat();
  await page.chat.sendMessage({ text: 'go' });
  const head = await handler(new Request('http://shop.example/api/chat/chat%201', { method: 'HEAD' }));
  expect([head.status, await head.text()]).toEqual([200, '']);
});
