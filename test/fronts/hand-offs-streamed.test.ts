import { expect, test } from 'vitest';
import { createAgent } from '../../agent/agent.ts';
import type { AgentOptions } from '../../agent/agent-options.ts';
import type { Output, Segment } from '../../cli/render/output.ts';
import { TerminalView } from '../../cli/render/terminal-view.ts';
import type { Run } from '../../engine/run/run.ts';
import { createAgUiHandler } from '../../fronts/ag-ui/index.ts';
import { toUIMessages } from '../../fronts/ai-sdk-ui/index.ts';
import { localRun } from '../../fronts/react/local-run.ts';
import { createStoryHandler } from '../../server/index.ts';
import { memory } from '../../stores/memory.ts';
import { calls, makeTool } from '../support/engine/agents.ts';
import { heard } from '../support/engine/front-desk.ts';
import { PushedModel } from '../support/engine/pushed-model.ts';
import { ChatPage } from '../support/fronts/ai-sdk-ui/chat-page.ts';
import { closeAfterTests } from '../support/fronts/close-after-tests.ts';

const used = closeAfterTests();

/** A front desk that hands each conversation to billing, which says what the test pushes. */
function makeDesk(front: Partial<AgentOptions> = {}) {
  const model = new PushedModel();
  const billing = createAgent({
    name: 'billing',
    model,
    tools: [makeTool('look_up'), makeTool('refund', { approval: () => true })],
  });
  const handsOver = { text: 'One moment.', ...calls('transfer_to_billing') };
  const agent = createAgent({
    name: 'front_desk',
    model: heard([handsOver]).model,
    handoffs: [billing],
    store: memory(),
    ...(front as object),
  });
  return { agent, model };
}

const text = (words: string) => ({ type: 'text' as const, text: words });
const callOf = (name: string) => [
  { callId: 'c1', name, arguments: '{}', input: {}, executedBy: 'engine' as const },
];

/** What a streamed body has so far. */
function readBody(response: Response) {
  const read = { body: '', ended: false };
  const decoder = new TextDecoder();
  void (async () => {
    for await (const chunk of response.body ?? []) read.body += decoder.decode(chunk, { stream: true });
    read.ended = true;
  })();
  return read;
}

const post = (url: string, body: object) =>
  new Request(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });

test('a page of useChat sees the answer as it streams, without what came before a call', async () => {
  const { agent, model } = makeDesk();
  const page = new ChatPage(agent);
  const shown = () => (page.messages.length > 1 ? page.text : '');
  const sent = page.chat.sendMessage({ text: 'What do I owe?' });
  await expect.poll(shown).toBe('One moment.');
  model.push(text('I look.'));
  await expect.poll(shown).toBe('One moment.|I look.');
  model.end('I look.', callOf('look_up'));
  model.push(text('You '));
  await expect.poll(shown).toBe('One moment.|You ');
  model.end('You owe 5.');
  await sent;
  expect(page.text).toBe('One moment.|You owe 5.');
  expect(page.tools()).toEqual(['tool-transfer_to_billing: output-available']);
  expect(page.requests).toHaveLength(1);
  const [{ runId } = { runId: '' }] = (await agent.store.list({ agent: 'front_desk' })).runs;
  const [, stored] = await toUIMessages((await agent.open(runId)) as never);
  const partsOf = (parts: readonly { type: string }[]) => parts.filter(({ type }) => type !== 'data-run');
  expect(partsOf(page.last.parts).map(({ type }) => type)).toEqual(
    partsOf(stored?.parts ?? []).map(({ type }) => type),
  );
});

test('a page of useChat approves what the sub-agent asks, and sees the answer', async () => {
  const { agent, model } = makeDesk();
  const page = new ChatPage(agent);
  const sent = page.chat.sendMessage({ text: 'Pay me back.' });
  model.push(text('I ask.'));
  await expect.poll(() => (page.messages.length > 1 ? page.text : '')).toBe('One moment.|I ask.');
  model.end('I ask.', callOf('refund'));
  await sent;
  expect(page.text).toBe('One moment.');
  model.end('Paid back.');
  await page.decide(page.open()[0], true);
  expect(page.text).toBe('One moment.|Paid back.');
  expect(page.errors).toEqual([]);
});

test('a page of useChat approves what both ask, and sees the answer once it has passed', async () => {
  const { agent, model } = makeDesk({
    guardrails: { answer: () => ({ type: 'ask', reason: 'it names a price' }) },
  });
  const page = new ChatPage(agent);
  const sent = page.chat.sendMessage({ text: 'Pay me back.' });
  model.end('', callOf('refund'));
  await sent;
  model.end('Paid back.');
  await page.decide(page.open()[0], true);
  expect(page.text).toBe('One moment.');
  await page.decide(page.open()[0], true);
  expect(page.text).toBe('One moment.|Paid back.');
  expect([page.requests.length, page.errors]).toEqual([3, []]);
  const [{ runId } = { runId: '' }] = (await agent.store.list({ agent: 'front_desk' })).runs;
  const [, stored] = await toUIMessages((await agent.open(runId)) as never);
  expect(page.last.parts).toMatchObject(stored?.parts ?? []);
});

test('a thread of AG-UI has the answer as it streams, without what came before a call', async () => {
  const { agent, model } = makeDesk();
  const handle = createAgUiHandler(agent as never);
  const messages = [{ id: 'm1', role: 'user', content: 'What do I owe?' }];
  const body = {
    threadId: 't',
    runId: 'r1',
    messages,
    tools: [],
    context: [],
    state: {},
    forwardedProps: {},
  };
  const read = readBody(await handle(post('http://local/', body)));
  const answer = () =>
    Array.from(read.body.matchAll(/"(TEXT_MESSAGE_\w+|MESSAGES_SNAPSHOT)"[^\n]*/g), ([line, type]) => {
      if (type === 'MESSAGES_SNAPSHOT') return line.includes('"answer_') ? 'kept' : 'without';
      if (!line.includes('"answer_')) return '';
      return /"delta":"([^"]*)"/.exec(line)?.[1] ?? type;
    })
      .filter(said => said !== '')
      .join('|');
  model.push(text('I look.'));
  await expect.poll(answer).toMatch(/TEXT_MESSAGE_START\|I look\.$/);
  model.end('I look.', callOf('look_up'));
  model.push(text('You '));
  await expect.poll(answer).toMatch(/I look\.\|TEXT_MESSAGE_END\|without\|TEXT_MESSAGE_START\|You $/);
  model.end('You owe 5.');
  await expect.poll(() => read.ended).toBe(true);
  expect(answer()).toMatch(/You \|owe 5\.\|TEXT_MESSAGE_END(\|kept)*$/);
});

test('a page in React has the answer as it streams, without what came before a call', async () => {
  const { agent, model } = makeDesk();
  const run = (await agent.start('What do I owe?')) as Run<never>;
  const observed = localRun(run as never);
  used(
    Object.assign(
      observed.subscribe(() => {}),
      { close: () => {} },
    ),
  );
  const shown = () => observed.getSnapshot().text;
  model.push(text('I look.'));
  await expect.poll(shown).toBe('I look.');
  model.end('I look.', callOf('look_up'));
  await expect.poll(shown).toBe('I look.');
  model.push(text('You '));
  await expect.poll(shown).toBe('You ');
  model.end('You owe 5.');
  await expect.poll(shown).toBe('You owe 5.');
});

test('the lines of /story have the answer as it streams', async () => {
  const { agent, model } = makeDesk();
  const handle = createStoryHandler(agent as never);
  const read = readBody(await handle(post('http://local/story', { input: 'What do I owe?' })));
  const lines = () =>
    read.body
      .split('\n')
      .filter(line => line !== '')
      .map(line => JSON.parse(line))
      .filter(({ type, runId }) => String(type).startsWith('answer.') && runId === undefined)
      .map(({ type, text: said }) => `${type} ${said}`);
  model.push(text('You '));
  await expect.poll(lines).toEqual(['answer.text You ']);
  model.end('You owe 5.');
  await expect.poll(() => read.ended).toBe(true);
  expect(lines().slice(1)).toEqual(['answer.text owe 5.', 'answer.taken You owe 5.']);
});

test('the terminal prints the answer as it streams, once, and says what was taken back', async () => {
  const { agent, model } = makeDesk();
  const run = (await agent.start('What do I owe?')) as Run<never>;
  let printed = '';
  const output = {
    isLive: true,
    stream: (piece: string) => {
      printed += piece;
    },
    endLine: () => {
      printed += '\n';
    },
    line: (...segments: Segment[]) => {
      printed += `${segments.map(segment => (typeof segment === 'string' ? segment : segment.text)).join('')}\n`;
    },
  } as unknown as Output;
  const view = new TerminalView({ output, runId: run.id, filters: [] });
  const reading = (async () => {
    for await (const happening of run.events()) view.take(happening);
  })();
  model.push(text('I look.'));
  await expect.poll(() => printed).toMatch(/I look\.$/);
  model.end('I look.', callOf('look_up'));
  model.push(text('You '));
  await expect.poll(() => printed).toMatch(/I look\. *\(the text above was discarded\)\nYou $/);
  model.end('You owe 5.');
  await reading;
  expect(printed).toContain('You owe 5.\n');
  expect(printed.match(/You owe 5/g)).toHaveLength(2);
});
