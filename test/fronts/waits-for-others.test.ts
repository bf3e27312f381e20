import { isToolUIPart, type UIMessage } from 'ai';
import { expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, tool } from '../../agent/index.ts';
import { createAgUiHandler } from '../../fronts/ag-ui/index.ts';
import { createChatHandler } from '../../fronts/ai-sdk-ui/index.ts';
import { memory } from '../../stores/memory.ts';
import { ChatPage } from '../support/fronts/ai-sdk-ui/chat-page.ts';
import { parseEvents } from '../support/server/runs-app.ts';

const WAITS = 'the decision of a person in the group managers who did not start the run';
const mia = { as: { name: 'mia', groups: ['managers'] } };

/** `mia` is a manager, all others are customers. */
const callers = (name: string) => () =>
  name === 'mia' ? { name, role: 'approver' as const, groups: ['managers'] } : { name };

function makeDesk() {
  const refund = tool({
    name: 'refund',
    description: 'Pays back.',
    input: z.object({ cents: z.number() }),
    approval: () => ({ required: true, by: 'managers', not: 'starter', reason: 'money leaves' }),
    run: ({ cents }) => ({ refunded: cents }),
  });
  const model = scripted([{ toolCalls: [{ name: 'refund', arguments: { cents: 5 } }] }, { text: 'Done.' }]);
  const agent = createAgent({ name: 'desk', model, tools: [refund], store: memory() });
  const waiting = async () => {
    const [record] = (await agent.store.list()).runs;
    return await agent.open(record?.runId ?? '');
  };
  return { agent, waiting };
}

const partOf = (page: ChatPage) => page.last.parts.findLast(isToolUIPart);
const load = async (handler: (request: Request) => Promise<Response>) =>
  (await (await handler(new Request('http://shop.example/api/chat/c'))).json()) as UIMessage[];

test('useChat shows a customer whom a refund waits for, without a request to answer, and asks the manager', async () => {
  const { agent, waiting } = makeDesk();
  const shop = createChatHandler(agent, { authorize: callers('ann') });
  const page = new ChatPage(shop, { id: 'c' });
  await page.chat.sendMessage({ text: 'Refund me.' });
  const shown = {
    state: 'output-available',
    preliminary: true,
    output: { waitsFor: WAITS, reason: 'money leaves' },
  };
  expect(partOf(page)).toMatchObject(shown);
  expect(partOf(page)?.approval).toBeUndefined();
  expect([page.chat.status, page.requests.length, page.errors]).toEqual(['ready', 1, []]);
  expect(JSON.stringify(await load(shop))).toContain(JSON.stringify(shown.output));
  expect(JSON.stringify(await load(shop))).not.toContain('approval');
  const desk = createChatHandler(agent, { authorize: callers('mia') });
  expect(JSON.stringify(await load(desk))).toContain('"state":"approval-requested"');
  const run = await waiting();
  await run.approve('call_0_0', mia);
  await run.settled();
  const after = new ChatPage(shop, { id: 'c', messages: await load(shop) });
  expect(partOf(after)).toMatchObject({ state: 'output-available', output: { refunded: 5 } });
  expect(partOf(after)).not.toHaveProperty('preliminary', true);
});

test('useChat shows a customer the words with which a manager refused', async () => {
  const { agent, waiting } = makeDesk();
  const shop = createChatHandler(agent, { authorize: callers('ann') });
  await new ChatPage(shop, { id: 'c' }).chat.sendMessage({ text: 'Refund me.' });
  const run = await waiting();
  await run.reject('call_0_0', { ...mia, reason: 'It was never paid.' });
  await run.settled();
  const after = new ChatPage(shop, { id: 'c', messages: await load(shop) });
  expect(partOf(after)).toMatchObject({
    state: 'output-error',
    errorText: expect.stringContaining('It was never paid.'),
  });
});

test('AG-UI tells a customer whom a refund waits for, without an interrupt to resume, and interrupts for the manager', async () => {
  const { agent } = makeDesk();
  const post = async (name: string, messages: object[]) => {
    const handler = createAgUiHandler(agent, { authorize: callers(name) });
    const response = await handler(
      new Request('http://shop.example/agent', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ threadId: 't', runId: 'r', messages }),
      }),
    );
    return parseEvents(await response.text()).map(({ data }) => data);
  };
  const events = await post('ann', [{ id: 'u', role: 'user', content: 'Refund me.' }]);
  const value = {
    toolCallId: 'call_0_0',
    name: 'refund',
    waitsFor: WAITS,
    by: ['managers'],
    reason: 'money leaves',
  };
  expect(events).toContainEqual({ type: 'CUSTOM', name: 'agentchart.waiting', value });
  expect(events.findLast(({ type }) => type === 'STATE_SNAPSHOT')).toMatchObject({
    snapshot: { status: 'waiting', calls: [{ name: 'refund', by: ['managers'], not: 'starter' }] },
  });
  expect(events.at(-1)).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'success' } });
  expect((await post('mia', [])).at(-1)).toMatchObject({
    outcome: { type: 'interrupt', interrupts: [{ toolCallId: 'call_0_0' }] },
  });
});
