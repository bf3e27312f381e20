import { expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import type { Run } from '../../engine/run/run.ts';
import { createAgUiHandler } from '../../fronts/ag-ui/index.ts';
import { toUIMessageResponse, toUIMessages } from '../../fronts/ai-sdk-ui/index.ts';
import { createResponsesHandler } from '../../server/index.ts';
import { memory } from '../../stores/memory.ts';
import { calls } from '../support/engine/agents.ts';

/** The script of billing counts the turn of the front desk that it reads. */
function makeDesk() {
  const billing = createAgent({
    name: 'billing',
    model: scripted([{}, { text: 'You owe 5.' }, { text: 'Since May.' }]),
  });
  const handsOver = { text: 'One moment.', ...calls('transfer_to_billing') };
  return createAgent({
    name: 'front_desk',
    model: scripted([handsOver]),
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
  expect((await textOf(first as Run<never>)).at(-1)).toBe('You owe 5.');
  const second = await agent.start('Since when?', { continues: first.id });
  expect(await textOf(second as Run<never>)).toEqual(['Since May.']);
});

test('a chat of the AI SDK has it, in each message', async () => {
  const agent = makeDesk();
  const first = await agent.start('What do I owe?');
  expect(textParts(await toUIMessageResponse(first as never).text()).at(-1)).toBe('You owe 5.');
  const second = await agent.start('Since when?', { continues: first.id });
  expect(textParts(await toUIMessageResponse(second as never).text())).toEqual(['Since May.']);
  const messages = await toUIMessages(second as never);
  expect(JSON.stringify(messages.at(-1))).toContain('Since May.');
});

test('a thread of AG-UI has it', async () => {
  const handle = createAgUiHandler(makeDesk() as never);
  const ask = async (runId: string, text: string) => {
    const messages = [{ id: `m_${runId}`, role: 'user', content: text }];
    const body = { threadId: 't', runId, messages, tools: [], context: [], state: {}, forwardedProps: {} };
    const headers = { 'content-type': 'application/json' };
    const request = new Request('http://local/', { method: 'POST', headers, body: JSON.stringify(body) });
    return await (await handle(request)).text();
  };
  expect(await ask('r1', 'What do I owe?')).toMatch(/TEXT_MESSAGE_CONTENT"[^}]*You owe 5\./);
  expect(await ask('r2', 'Since when?')).toMatch(/TEXT_MESSAGE_CONTENT"[^}]*Since May\./);
});

test('a response of the gateway has it', async () => {
  const handle = createResponsesHandler(makeDesk() as never);
  const body = JSON.stringify({ model: 'front_desk', input: 'What do I owe?' });
  const headers = { 'content-type': 'application/json' };
  const response = await handle(new Request('http://local/v1/responses', { method: 'POST', headers, body }));
  const answer = (await response.json()) as { output: unknown[]; id: string };
  expect(JSON.stringify(answer.output)).toContain('You owe 5.');
});
