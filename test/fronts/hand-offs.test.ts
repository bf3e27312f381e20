import type { Task } from '@a2a-js/sdk';
import { expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import type { Run } from '../../engine/run/run.ts';
import { createAgUiHandler } from '../../fronts/ag-ui/index.ts';
import { toUIMessageResponse, toUIMessages } from '../../fronts/ai-sdk-ui/index.ts';
import { localRun } from '../../fronts/react/local-run.ts';
import { createResponsesHandler } from '../../server/index.ts';
import { memory } from '../../stores/memory.ts';
import { calls } from '../support/engine/agents.ts';
import { a2aClient, a2aServer, seen, sending } from '../support/fronts/a2a.ts';
import { closeAfterTests } from '../support/fronts/close-after-tests.ts';
import { earlierClient, mcpServer, textOf as textOfResult } from '../support/fronts/mcp.ts';

const used = closeAfterTests();

/** The script of billing counts the turn of the front desk that it reads. */
function makeDesk() {
  const billing = createAgent({
    name: 'billing',
    model: scripted([{}, { text: 'You owe 5.' }, { text: 'Since May.' }]),
  });
  const handsOver = { text: 'One moment.', ...calls('transfer_to_billing') };
  return createAgent({
    name: 'front_desk',
    model: scripted([handsOver, { text: 'As I said.' }]),
    handoffs: [billing],
    store: memory(),
  });
}

async function textOf(run: Run<never>): Promise<string[]> {
  const texts: string[] = [];
  for await (const text of run.text()) texts.push(text);
  return texts;
}

function textParts(body: string): string[] {
  return [...body.matchAll(/"type":"text-delta"[^}]*"delta":"([^"]*)"/g)].map(found => found[1] ?? '');
}

test('the text of a run has the answer of the agent to which it was handed', async () => {
  const agent = makeDesk();
  const first = await agent.start('What do I owe?');
  expect((await textOf(first as Run<never>)).join('')).toBe('One moment.You owe 5.');
  const second = await agent.start('Since when?', { continues: first.id });
  expect((await textOf(second as Run<never>)).join('')).toBe('Since May.');
});

test('a chat of the AI SDK has it, in each message', async () => {
  const agent = makeDesk();
  const first = await agent.start('What do I owe?');
  const body = await toUIMessageResponse(first as never).text();
  expect(textParts(body).join('')).toBe('One moment.You owe 5.');
  expect(body).not.toContain('reset-step');
  const [, message] = await toUIMessages(first as never);
  expect(message?.parts).toMatchObject([
    { type: 'data-run' },
    { type: 'step-start' },
    { type: 'text', text: 'One moment.' },
    { type: 'tool-transfer_to_billing', state: 'output-available' },
    { type: 'text', text: 'You owe 5.' },
  ]);
  const second = await agent.start('Since when?', { continues: first.id });
  expect(textParts(await toUIMessageResponse(second as never).text()).join('')).toBe('Since May.');
  expect((await toUIMessages(second as never)).at(-1)?.parts.slice(2)).toMatchObject([
    { type: 'text', text: 'Since May.' },
  ]);
});

/** The text of the message that the agent wrote to which the conversation was handed. */
function answerIn(body: string): string {
  const pieces = body.matchAll(/"TEXT_MESSAGE_CONTENT","messageId":"answer_[^"]*","delta":"([^"]*)"/g);
  return Array.from(pieces, ([, delta = '']) => delta).join('');
}

test('a thread of AG-UI has it', async () => {
  const handle = createAgUiHandler(makeDesk() as never);
  const ask = async (runId: string, text: string) => {
    const messages = [{ id: `m_${runId}`, role: 'user', content: text }];
    const body = { threadId: 't', runId, messages, tools: [], context: [], state: {}, forwardedProps: {} };
    const headers = { 'content-type': 'application/json' };
    const request = new Request('http://local/', { method: 'POST', headers, body: JSON.stringify(body) });
    return await (await handle(request)).text();
  };
  expect(answerIn(await ask('r1', 'What do I owe?'))).toBe('You owe 5.');
  expect(answerIn(await ask('r2', 'Since when?'))).toBe('Since May.');
});

/** Asks the gateway, and returns the response. */
function askGateway() {
  const handle = createResponsesHandler(makeDesk() as never);
  return async (path: string, body: object) => {
    const headers = { 'content-type': 'application/json', 'anthropic-version': '2023-06-01' };
    const request = { method: 'POST', headers, body: JSON.stringify({ model: 'front_desk', ...body }) };
    const response = await handle(new Request(`http://local/v1/${path}`, request));
    return (await response.json()) as { id: string; output: unknown[] };
  };
}

const user = (content: string) => ({ role: 'user', content });

test('a response of the gateway has it, and so have those that continue it', async () => {
  const ask = askGateway();
  const first = await ask('responses', { input: 'What do I owe?' });
  const items = first.output as { id: string; type: string }[];
  expect(JSON.stringify(items)).toContain('You owe 5.');
  expect(new Set(items.map(({ id }) => id)).size).toBe(items.length);
  const { id = '' } = items.findLast(({ type }) => type === 'message') ?? {};
  const referring = await ask('responses', {
    input: [
      { type: 'item_reference', id },
      { type: 'message', ...user('Again?') },
    ],
  });
  expect(JSON.stringify(referring.output)).toContain('As I said.');
  const second = await ask('responses', { input: 'Since when?', previous_response_id: first.id });
  expect(JSON.stringify(second.output)).toContain('Since May.');
});

test.each(['chat/completions', 'messages'])('%s has it', async path => {
  const ask = askGateway();
  const first = await ask(path, { messages: [user('What do I owe?')], max_tokens: 100 });
  expect(JSON.stringify(first)).toContain('You owe 5.');
});

test('a task of A2A has it', async () => {
  const client = await a2aClient(used(a2aServer([makeDesk() as never])), 'JSONRPC');
  const first = (await client.sendMessage(sending({ text: 'What do I owe?' }))) as Task;
  expect(seen(first).answer.at(-1)).toBe('You owe 5.');
  const { contextId } = first;
  const second = (await client.sendMessage(sending({ text: 'Since when?', contextId }))) as Task;
  expect(seen(second).answer).toEqual(['Since May.']);
});

test('a tool of MCP has it', async () => {
  const client = used(await earlierClient(used(mcpServer([makeDesk() as never]))));
  const result = await client.callTool({ name: 'front_desk', arguments: { input: 'What do I owe?' } });
  expect(textOfResult(result)).toBe('You owe 5.');
});

test('a page in React has it, while it is connected and afterwards', async () => {
  const agent = makeDesk();
  const run = (await agent.start('What do I owe?')) as Run<never>;
  const observed = localRun(run as never);
  const texts: string[] = [];
  const ended = new Promise<void>(resolve => {
    used(
      Object.assign(
        observed.subscribe(({ text, status }) => {
          texts.push(text);
          if (status === 'finished') resolve();
        }),
        { close: () => {} },
      ),
    );
  });
  await ended;
  expect(texts.at(-1)).toBe('You owe 5.');
});
