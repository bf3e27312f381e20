import { Chat } from '@ai-sdk/react';
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  type UIMessage,
} from 'ai';
import { expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent, tool } from '../../../agent/index.ts';
import { createChatHandler, toUIMessageResponse, toUIMessages } from '../../../fronts/ai-sdk-ui/index.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeGate, makeTool } from '../../support/engine/agents.ts';
import { PushedModel } from '../../support/engine/pushed-model.ts';
import { ChatPage, TOOLS, toolsIn } from '../../support/fronts/ai-sdk-ui/chat-page.ts';
import { until } from '../../support/server/runs-app.ts';

const post = (body: object) =>
  new Request('http://shop.example/api/chat', { method: 'POST', body: JSON.stringify(body) });
const user = (id: string, text: string) => ({ id, role: 'user', parts: [{ type: 'text', text }] });

async function runsOf(agent: Agent) {
  return (await agent.store.list({ order: 'asc' })).runs;
}

/** An agent that asks for an approval, and then waits in the approved tool until the gate opens. */
function slowAgent() {
  const gate = makeGate();
  const tools = [makeTool('pay', { approval: true, run: () => gate.promise.then(() => 'paid') })];
  const model = scripted([{ ...calls('pay'), text: 'I pay.' }, { text: 'Paid.' }, { text: 'Welcome.' }]);
  return { gate, agent: createAgent({ name: 'payer', model, tools, store: memory() }) };
}

test('an answer is a stream of events with the headers of the protocol, from start to [DONE]', async () => {
  const agent = createAgent({ name: 'a', model: scripted([{ text: 'Hi é漢.' }]), store: memory() });
  const response = await createChatHandler(agent)(post({ id: 'c', messages: [user('u1', 'go')] }));
  expect(Object.fromEntries(response.headers)).toMatchObject({
    'content-type': expect.stringContaining('text/event-stream'),
    'x-vercel-ai-ui-message-stream': 'v1',
    'x-accel-buffering': 'no',
  });
  const text = await response.text();
  const frames = text.split('\n\n').filter(frame => frame !== '');
  for (const frame of frames) expect(frame).toMatch(/^data: [^\n]+$/);
  const [record] = await runsOf(agent);
  expect(frames[0]).toBe(`data: {"type":"start","messageId":"${record?.runId}.1"}`);
  expect(frames.slice(-2)).toEqual(['data: {"type":"finish","finishReason":"stop"}', 'data: [DONE]']);
});

test('a quiet stream sends comments, which the page skips', async () => {
  const host = new ManualHost();
  const model = new PushedModel();
  const agent = createAgent({ name: 'a', model, store: memory(), host });
  const run = await agent.start('go');
  const reader = toUIMessageResponse(run).body?.pipeThrough(new TextDecoderStream()).getReader();
  let seen = '';
  const readUntil = async (piece: string) => {
    while (!seen.includes(piece)) seen += (await reader?.read())?.value ?? '';
  };
  await readUntil('turn.planning');
  const next = readUntil(': keep-alive\n\n');
  await host.advance(15_000);
  await next;
  model.end('Hi.');
  await readUntil('[DONE]');
});

test('stop() of the page leaves the run alone; the stop endpoint cancels it', async () => {
  const { agent, gate } = slowAgent();
  const page = new ChatPage(agent);
  await page.chat.sendMessage({ text: 'go' });
  const decided = page.decide(page.open()[0], true);
  await until(() => (JSON.stringify(page.seen).includes('executingTools') ? true : undefined));
  await page.chat.stop();
  await decided;
  expect(await runsOf(agent)).toMatchObject([{ status: 'running' }]);
  const stop = new Request('http://shop.example/api/chat/chat%201/stop', { method: 'POST' });
  const stopped = createChatHandler(agent)(stop);
  gate.open();
  expect(await (await stopped).json()).toEqual({ stopped: true });
  expect(await runsOf(agent)).toMatchObject([{ status: 'cancelled' }]);
});

test('what a stopped run had open is over, also for a page that answers it afterwards', async () => {
  const names = ['refund', 'ask', 'quiz', 'help'];
  const inputs: Record<string, Record<string, string | number>> = {
    refund: { cents: 5 },
    help: { input: 'Pay.' },
  };
  const calling = (all: readonly string[]) => ({
    toolCalls: all.map(name => ({ name, arguments: inputs[name] ?? {} })),
  });
  const quiz = tool({
    name: 'quiz',
    description: 'Asks.',
    input: z.object({}),
    prepare: ({ ask }) => ask({ key: 'color', message: 'Which?', schema: z.string() }),
    run: () => 'asked',
  });
  const helper = createAgent({ name: 'helper', tools: TOOLS, model: scripted([calling(['refund'])]) });
  const help = helper.asTool({ name: 'help', description: 'Helps.' });
  const model = scripted([calling(names), { text: 'Hello again.' }]);
  const agent = createAgent({ name: 'desk', model, tools: [...TOOLS, quiz, help], store: memory() });
  const page = new ChatPage(agent, { automatic: false });
  await page.chat.sendMessage({ text: 'go' });
  expect(page.open()).toHaveLength(2);
  const chat = createChatHandler(agent);
  await chat(new Request('http://shop.example/api/chat/chat%201/stop', { method: 'POST' }));
  const get = () => new Request('http://shop.example/api/chat/chat%201');
  const read = async () => (await (await chat(get())).json()) as UIMessage[];
  const over = [
    'tool-refund: output-denied',
    'tool-ask: output-error',
    'tool-quiz: output-error',
    'tool-help: output-error',
    'tool-refund: output-denied',
  ];
  const reloaded = new ChatPage(agent, { messages: await read() });
  expect(reloaded.tools()).toEqual(over);
  expect(reloaded.data('question')).toMatchObject([{ questions: [] }]);
  await page.decide(page.open()[0], true);
  await page.chat.sendMessage();
  expect(page.tools()).toEqual(over);
  expect(page.messages).toHaveLength(2);
  await reloaded.chat.sendMessage({ text: 'and now?' });
  expect(reloaded.text).toBe('Hello again.');
  expect(await read()).toEqual(reloaded.messages);
});

test('a resume replays the call, its approval and its output, and the page has the finished part', async () => {
  const model = new PushedModel();
  const agent = createAgent({ name: 'desk', model, tools: TOOLS, store: memory() });
  const page = new ChatPage(agent);
  const input = { cents: 5 };
  model.end('', [
    { callId: 'c1', name: 'refund', arguments: JSON.stringify(input), input, executedBy: 'engine' },
  ]);
  await page.chat.sendMessage({ text: 'go' });
  const decided = page.decide(page.open()[0], true);
  await until(() => (page.tools()[0] === 'tool-refund: output-available' ? true : undefined));
  await page.chat.stop();
  await decided;
  const reloaded = new ChatPage(agent, { messages: page.messages });
  const resumed = reloaded.chat.resumeStream();
  model.end('Done.');
  await resumed;
  expect(toolsIn(reloaded.last)).toMatchObject([
    { output: { refunded: 5 }, approval: { approved: true, requestReason: 'pays 5 cents' } },
  ]);
  expect(reloaded.messages).toHaveLength(2);
  expect(reloaded.last.id).toBe(page.last.id);
  expect(reloaded.text).toBe('Done.');
  expect([...page.errors, ...reloaded.errors]).toEqual([]);
});

test('two tabs resume the same answer at once, and both have it whole', async () => {
  const model = new PushedModel();
  const agent = createAgent({ name: 'teller', model, store: memory() });
  const page = new ChatPage(agent);
  const sent = page.chat.sendMessage({ text: 'go' });
  model.push({ type: 'text', text: 'Once ' });
  await until(() => (page.messages.length > 1 && page.text === 'Once ' ? true : undefined));
  const tabs = [1, 2].map(() => new ChatPage(agent, { messages: page.messages.slice(0, 1) }));
  const resumed = tabs.map(tab => tab.chat.resumeStream());
  await Promise.all(
    tabs.map(tab => until(() => (tab.messages.length > 1 && tab.text === 'Once ' ? true : undefined))),
  );
  model.end('Once upon a time.');
  await Promise.all([sent, ...resumed]);
  for (const tab of tabs) expect(tab.last).toEqual(page.last);
});

test('a queued message waits until the open approvals are answered', async () => {
  const { agent, gate } = slowAgent();
  const handler = createChatHandler(agent);
  const bodies: { messages: unknown[] }[] = [];
  const fetch = async (url: string | URL | Request, init?: RequestInit) => {
    bodies.push(JSON.parse(String(init?.body)));
    return await handler(new Request(new URL(String(url), 'http://shop.example'), init));
  };
  const chat = new Chat({
    id: 'c',
    experimental_queue: true,
    transport: new DefaultChatTransport({ fetch }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  await chat.sendMessage({ text: 'pay' });
  const queued = chat.sendMessage({ text: 'and thanks' });
  expect(bodies).toHaveLength(1);
  const [part] = toolsIn(chat.messages.at(-1) ?? { id: '', role: 'assistant', parts: [] });
  gate.open();
  await chat.addToolApprovalResponse({ id: part?.approval?.id ?? '', approved: true });
  await queued;
  await until(() => (bodies.length === 3 && chat.status === 'ready' ? true : undefined));
  expect(chat.error).toBeUndefined();
  expect(chat.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
  expect((await runsOf(agent)).map(({ status }) => status)).toEqual(['finished', 'finished']);
});

test('an outcome goes into the message that has its call, so that the page finds the invocation', async () => {
  const { agent, gate } = slowAgent();
  const page = new ChatPage(agent);
  await page.chat.sendMessage({ text: 'pay' });
  const [record] = await runsOf(agent);
  const run = await agent.open(record?.runId ?? '');
  await page.chat.sendMessage({ text: 'hurry' });
  gate.open();
  await run.approve(run.context.calls[0]?.callId ?? '', { by: 'ann' });
  await run.settled();
  await page.decide(page.open()[0], true);
  expect(page.errors).toEqual([]);
  expect(page.chat.status).toBe('ready');
  expect(page.tools()).toEqual(['tool-pay: output-available']);
  const messages = await toUIMessages(run);
  expect(page.tools(messages[1] as never)).toEqual(['tool-pay: output-available']);
});

test('where a sub-agent still works the stream is resumed, and there is nothing to resume at rest', async () => {
  const gate = makeGate();
  const clerk = createAgent({
    name: 'clerk',
    model: scripted([calls('pay'), { text: 'Paid.' }]),
    tools: [makeTool('pay', { approval: true, run: () => gate.promise.then(() => 'paid') })],
  });
  const agent = createAgent({
    name: 'desk',
    store: memory(),
    model: scripted([calls(['ask_clerk', { input: 'pay' }]), { text: 'All paid.' }]),
    tools: [clerk.asTool({ name: 'ask_clerk', description: 'Pays.' })],
  });
  const page = new ChatPage(agent);
  await page.chat.sendMessage({ text: 'go' });
  const handler = createChatHandler(agent);
  const resume = () => handler(new Request('http://shop.example/api/chat/chat%201/stream'));
  expect((await resume()).status).toBe(204);
  const decided = page.decide(page.open()[0], true);
  await until(async () => {
    const child = (await runsOf(agent)).find(({ parent }) => parent !== undefined);
    return child?.state === 'executingTools' ? true : undefined;
  });
  await page.chat.stop();
  await decided;
  const reloaded = new ChatPage(handler, { messages: page.messages });
  const resumed = reloaded.chat.resumeStream();
  gate.open();
  await resumed;
  await reloaded.idle();
  expect(reloaded.text).toBe('All paid.');
  expect(reloaded.requests.map(({ method }) => method)).toEqual(['GET']);
  expect((await resume()).status).toBe(204);
});

test("a sub-agent's calls are in the step that waits for them, after a reload too", async () => {
  const clerk = createAgent({
    name: 'clerk',
    model: scripted([calls('pay'), calls('pay'), { text: 'Paid.' }]),
    tools: [makeTool('pay', { approval: true })],
  });
  const agent = createAgent({
    name: 'desk',
    store: memory(),
    model: scripted([calls(['ask_clerk', { input: 'pay' }]), { text: 'All paid.' }]),
    tools: [clerk.asTool({ name: 'ask_clerk', description: 'Pays.' })],
  });
  const page = new ChatPage(agent);
  await page.chat.sendMessage({ text: 'go' });
  const reload = async () =>
    await (await createChatHandler(agent)(new Request('http://shop.example/api/chat/chat%201'))).json();
  expect(await reload()).toEqual(page.messages);
  await page.decide(page.open()[0], true);
  expect(await reload()).toEqual(page.messages);
  await page.decide(page.open()[0], true);
  expect(await reload()).toEqual(page.messages);
  const types = page.last.parts.map(({ type }) => type).filter(type => type !== 'data-run');
  expect(types).toEqual(['step-start', 'tool-ask_clerk', 'tool-pay', 'tool-pay', 'step-start', 'text']);
  expect(toolsIn(page.last).map(({ output }) => output)).toEqual(['Paid.', 'pay ran', 'pay ran']);
  expect(page.requests).toHaveLength(3);
});

test("a sub-agent's call that has its result is not shown again in the next message", async () => {
  const clerk = createAgent({
    name: 'clerk',
    model: scripted([calls('pay'), { text: 'Paid.' }]),
    tools: [makeTool('pay', { approval: true })],
  });
  const agent = createAgent({
    name: 'desk',
    store: memory(),
    model: scripted([calls(['ask_clerk', { input: 'pay' }], 'sign'), { text: 'All paid.' }]),
    tools: [clerk.asTool({ name: 'ask_clerk', description: 'Pays.' }), makeTool('sign', { approval: true })],
  });
  const page = new ChatPage(agent, { automatic: false });
  await page.chat.sendMessage({ text: 'go' });
  expect(page.tools().toSorted()).toEqual([
    'tool-ask_clerk: output-available',
    'tool-pay: approval-requested',
    'tool-sign: approval-requested',
  ]);
  const pay = toolsIn(page.last).find(({ type }) => type === 'tool-pay');
  await page.decide(pay?.approval?.id, true);
  await page.chat.sendMessage();
  await page.chat.sendMessage({ text: 'hurry' });
  expect(page.tools()).toEqual(['tool-sign: approval-requested']);
  expect(page.errors).toEqual([]);
});

test("what a sub-agent's run asked before it was cancelled is not asked any more", async () => {
  const store = memory();
  const clerk = createAgent({
    name: 'clerk',
    store,
    model: scripted([calls('pay')]),
    tools: [makeTool('pay', { approval: true })],
  });
  const agent = createAgent({
    name: 'desk',
    store,
    model: scripted([calls(['ask_clerk', { input: 'pay' }]), { text: 'The clerk is away.' }]),
    tools: [clerk.asTool({ name: 'ask_clerk', description: 'Pays.' })],
  });
  const page = new ChatPage(agent);
  await page.chat.sendMessage({ text: 'go' });
  expect(page.open()).toHaveLength(1);
  const child = (await runsOf(agent)).find(({ parent }) => parent !== undefined);
  await (await clerk.open(child?.runId ?? '')).cancel();
  await page.chat.sendMessage();
  expect(page.text).toBe('The clerk is away.');
  expect(page.tools()).toEqual(['tool-ask_clerk: output-error', 'tool-pay: output-denied']);
  expect(page.errors).toEqual([]);
});

test('a message that ends with its calls is not posted again and again', async () => {
  const looking = { name: 'a', tools: TOOLS, model: scripted([calls('look'), calls('look')]) };
  const limited = new ChatPage(
    createAgent({ ...looking, store: memory(), limits: { turns: 1 }, onLimit: 'stop' }),
  );
  await limited.chat.sendMessage({ text: 'go' });
  await limited.idle();
  expect(limited.tools()).toEqual(['tool-look: output-available']);
  expect(limited.requests).toHaveLength(1);
  const cancelled = createAgent({
    name: 'b',
    store: memory(),
    model: scripted([calls('look')]),
    tools: [
      makeTool('look', {
        run: async (_: unknown, { runId }: { runId: string }) => {
          void (await cancelled.open(runId)).cancel();
          return 'seen';
        },
      }),
    ],
  });
  const page = new ChatPage(cancelled);
  await page.chat.sendMessage({ text: 'go' });
  await page.idle();
  expect((await runsOf(cancelled)).map(({ status }) => status)).toEqual(['cancelled']);
  expect(page.requests).toHaveLength(1);
});

test('a message to a long chat reads the journals of its last runs alone', async () => {
  const store = memory();
  const read: string[] = [];
  const reading = store.read.bind(store);
  store.read = async (runId, after, page) => {
    if (!after) read.push(runId);
    return await reading(runId, after, page);
  };
  const turns = Array.from({ length: 9 }, (_, index) => ({ text: `Answer ${index}.` }));
  const page = new ChatPage(createAgent({ name: 'talker', store, model: scripted(turns) }));
  for (let index = 0; index < 8; index += 1) await page.chat.sendMessage({ text: `question ${index}` });
  read.length = 0;
  await page.chat.sendMessage({ text: 'another' });
  expect(new Set(read).size).toBe(2);
  expect(page.text).toBe('Answer 8.');
});
