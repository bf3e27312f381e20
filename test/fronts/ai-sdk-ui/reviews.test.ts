import { lastAssistantMessageIsCompleteWithToolCalls, type UIMessage } from 'ai';
import { expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent } from '../../../agent/index.ts';
import { createChatHandler } from '../../../fronts/ai-sdk-ui/index.ts';
import { userMessage } from '../../../protocol/message.ts';
import { memory } from '../../../stores/memory.ts';
import { ChatPage, toolsIn } from '../../support/fronts/ai-sdk-ui/chat-page.ts';

const REVIEW = 'agentchart.review';

function makeSales(more: Partial<Agent['options']> = {}, ask: object = {}) {
  const agent = createAgent({
    name: 'sales',
    store: memory(),
    model: scripted([{ text: 'It costs 5.' }, { text: 'It costs some.' }]),
    guardrails: { answer: () => ({ type: 'ask', reason: 'it names a price', ...ask }) },
    ...more,
  });
  const open = async () => await agent.open((await agent.store.list()).runs[0]?.runId ?? '');
  const load = async (handler: (request: Request) => Promise<Response>) =>
    (await (await handler(new Request('http://shop.example/api/chat/c'))).json()) as UIMessage[];
  return { agent, open, load };
}

const reviewIn = (page: ChatPage) => toolsIn(page.last).find(({ type }) => type === `tool-${REVIEW}`);

async function ask(handler: ConstructorParameters<typeof ChatPage>[0]): Promise<ChatPage> {
  const page = new ChatPage(handler, { id: 'c' });
  await page.chat.sendMessage({ text: 'What does it cost?' });
  return page;
}

test.each(['live', 'held'] as const)(
  'a %s answer under review asks as an approval does; sent back, it is gone, and approved, it stays',
  async finalAnswer => {
    const { agent, open, load } = makeSales({ finalAnswer });
    const handler = createChatHandler(agent, { authorize: () => ({ name: 'mia', role: 'operator' }) });
    const page = await ask(handler);
    expect(page.text).toBe(finalAnswer === 'held' ? '' : 'It costs 5.');
    expect(reviewIn(page)).toMatchObject({
      state: 'approval-requested',
      input: { answer: 'It costs 5.' },
      approval: { requestReason: 'it names a price' },
    });
    await page.decide(page.open()[0], false, 'name no price');
    expect(reviewIn(page)).toMatchObject({
      state: 'approval-requested',
      input: { answer: 'It costs some.' },
    });
    expect(page.text).toBe(finalAnswer === 'held' ? '' : 'It costs some.');
    expect(toolsIn(page.last)).toHaveLength(1);
    await page.decide(page.open()[0], true);
    expect(page.text).toBe('It costs some.');
    expect(reviewIn(page)).toMatchObject({ state: 'output-available', output: { approved: true } });
    expect(page.requests).toHaveLength(3);
    expect(page.errors).toEqual([]);
    const [loaded] = (await load(handler)).slice(-1);
    expect(page.last.parts).toMatchObject(loaded?.parts ?? []);
    const run = await open();
    expect(await run.settled()).toMatchObject({ status: 'finished', text: 'It costs some.' });
    const decided = (await agent.store.read(run.id)).filter(({ event }) => event.type === 'review.decided');
    expect(decided.map(({ event }) => event)).toMatchObject([
      { by: 'mia', decision: { type: 'reject', reason: 'name no price' } },
      { by: 'mia', decision: { type: 'approve' } },
    ]);
  },
);

test.each(['live', 'held'] as const)(
  'an output of the part is given in place of a %s answer',
  async finalAnswer => {
    const { agent, open, load } = makeSales({ finalAnswer });
    const page = await ask(agent);
    const { toolCallId } = reviewIn(page) ?? { toolCallId: '' };
    await page.chat.addToolOutput({ tool: REVIEW, toolCallId, output: 'Ask sales.' });
    await page.idle();
    expect([page.text, page.errors]).toEqual(['Ask sales.', []]);
    expect(reviewIn(page)).toMatchObject({ output: { approved: true, edited: true } });
    expect(await (await open()).settled()).toMatchObject({ status: 'finished', text: 'Ask sales.' });
    const [loaded] = (await load(createChatHandler(agent))).slice(-1);
    expect(page.last.parts).toMatchObject(loaded?.parts ?? []);
  },
);

test('an answer that does not follow the schema is refused in words, and the review stays open', async () => {
  const { agent, open } = makeSales({
    model: scripted([{ text: '{"cents":5}' }]),
    output: z.object({ cents: z.int() }),
  });
  const page = await ask(agent);
  const review = reviewIn(page);
  expect(review).toMatchObject({ input: { answer: '{"cents":5}', output: { cents: 5 } } });
  const toolCallId = review?.toolCallId ?? '';
  await page.chat.addToolOutput({ tool: REVIEW, toolCallId, output: { cents: 'five' } });
  await page.idle();
  expect(page.errors).toEqual([expect.stringContaining('not valid')]);
  expect(await (await open()).settled()).toMatchObject({ status: 'waiting', reviews: [{}] });
  await page.chat.addToolOutput({ tool: REVIEW, toolCallId, output: { cents: 6 } });
  await page.idle();
  expect(await (await open()).settled()).toMatchObject({ status: 'finished', output: { cents: 6 } });
});

test('a decision about another answer than the one shown counts for nothing, and the page gets the new one', async () => {
  const { agent, open } = makeSales();
  const page = await ask(agent);
  const [first] = page.open();
  const run = await open();
  const settled = await run.settled();
  const [review] = settled.status === 'waiting' ? settled.reviews : [];
  await run.reject(review ?? '', { reason: 'name no price' });
  await run.settled();
  await page.decide(first, true);
  expect(await run.settled()).toMatchObject({ status: 'waiting', reviews: [{ answer: 'It costs some.' }] });
  expect(reviewIn(page)).toMatchObject({ input: { answer: 'It costs some.' } });
});

test('after an edit of the transcript, the page asks about the new answer alone', async () => {
  const { agent, open, load } = makeSales();
  const handler = createChatHandler(agent);
  await ask(handler);
  const run = await open();
  await run.editTranscript([userMessage('And now?')]);
  const settled = await run.settled();
  const [review] = settled.status === 'waiting' ? settled.reviews : [];
  const parts = (await load(handler)).flatMap(message => toolsIn(message));
  const asked = parts.filter(({ state }) => state === 'approval-requested');
  expect(asked.map(({ toolCallId }) => toolCallId)).toEqual([review?.callId]);
});

test('a customer sees whom the answer waits for and none of a held answer, and decides nothing', async () => {
  const { agent, open, load } = makeSales({ finalAnswer: 'held' }, { by: 'managers' });
  const shop = createChatHandler(agent, { authorize: () => ({ name: 'ann' }) });
  const page = await ask(shop);
  expect(reviewIn(page)).toMatchObject({
    state: 'output-available',
    preliminary: true,
    input: {},
    output: { waitsFor: 'the decision of a person in the group managers', reason: 'it names a price' },
  });
  expect(JSON.stringify([page.messages, await load(shop)])).not.toContain('It costs');
  expect(lastAssistantMessageIsCompleteWithToolCalls({ messages: page.messages })).toBe(false);
  const toolCallId = reviewIn(page)?.toolCallId ?? '';
  await page.chat.addToolOutput({ tool: REVIEW, toolCallId, output: 'Free!' });
  await page.idle();
  const run = await open();
  expect(await run.settled()).toMatchObject({ status: 'waiting', reviews: [{ answer: 'It costs 5.' }] });
  const boss = createChatHandler(agent, {
    authorize: () => ({ name: 'mia', role: 'approver', groups: ['managers'] }),
  });
  const desk = new ChatPage(boss, { id: 'c', messages: await load(boss) });
  await desk.decide(desk.open()[0], true);
  const after = (await load(shop)).at(-1);
  expect(after?.parts.at(-1)).toMatchObject({ type: `tool-${REVIEW}`, output: { approved: true } });
  expect(JSON.stringify(after)).toContain('It costs 5.');
});

test('an answer of a sub-agent under review is asked about and decided in the chat of its parent', async () => {
  const { agent: sales } = makeSales();
  const desk = createAgent({
    name: 'desk',
    store: sales.store,
    model: scripted([
      { toolCalls: [{ name: 'ask_sales', arguments: { input: 'What does it cost?' } }] },
      { text: 'Done.' },
    ]),
    tools: [sales.asTool({ name: 'ask_sales', description: 'Asks sales.' })],
  });
  const page = await ask(desk);
  expect(reviewIn(page)).toMatchObject({
    toolCallId: expect.stringContaining('/review_'),
    state: 'approval-requested',
    input: { answer: 'It costs 5.' },
  });
  await page.decide(page.open()[0], false, 'name no price');
  expect(toolsIn(page.last).filter(({ state }) => state === 'approval-requested')).toMatchObject([
    { input: { answer: 'It costs some.' } },
  ]);
  await page.decide(page.open()[0], true);
  expect(page.text).toBe('Done.');
  expect(page.errors).toEqual([]);
});
