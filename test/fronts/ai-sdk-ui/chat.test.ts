import type { UIMessage } from 'ai';
import { describe, expect, test } from 'vitest';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent, type Run } from '../../../agent/index.ts';
import { createChatHandler, toUIMessages } from '../../../fronts/ai-sdk-ui/index.ts';
import { memory } from '../../../stores/memory.ts';
import { ChatPage, SECRET, TOOLS, toolsIn } from '../../support/fronts/ai-sdk-ui/chat-page.ts';

const calling = (...names: string[]): ScriptedTurn => ({
  text: 'I will.',
  reasoning: 'Hm.',
  toolCalls: names.map(name => ({ name, arguments: name === 'refund' ? { cents: 5 } : {} })),
});

function makeAgent(turns: readonly ScriptedTurn[], options: Partial<Agent['options']> = {}) {
  return createAgent({ name: 'desk', store: memory(), model: scripted(turns), tools: TOOLS, ...options });
}

async function runOf(agent: Agent): Promise<Run> {
  const { runs } = await agent.store.list();
  return await agent.open(runs[0]?.runId ?? '');
}

/** What the history is after a reload equals what the page has. */
async function expectSameAfterReload(page: ChatPage, agent: Agent): Promise<void> {
  expect(await toUIMessages(await runOf(agent))).toEqual(page.messages);
}

describe('useChat', () => {
  test('shows text, reasoning and calls, and continues in the same message when they are approved', async () => {
    const agent = makeAgent([calling('refund', 'look'), { text: 'Done.' }]);
    const page = new ChatPage(agent);
    await page.chat.sendMessage({ text: 'go' });
    const { id } = page.last;
    expect(page.tools()).toEqual(['tool-refund: approval-requested', 'tool-look: output-available']);
    expect(page.last.parts.find(({ type }) => type === 'reasoning')).toMatchObject({
      text: 'Hm.',
      state: 'done',
    });
    expect(page.last.parts).toContainEqual(
      expect.objectContaining({ approval: { id: page.open()[0], requestReason: 'pays 5 cents' } }),
    );
    await expectSameAfterReload(page, agent);
    await page.decide(page.open()[0], true, 'fine');
    expect(page.requests).toHaveLength(2);
    expect(page.last.id).toBe(id);
    expect(page.text).toBe('I will.|Done.');
    expect(page.last.parts).toContainEqual(
      expect.objectContaining({
        type: 'tool-refund',
        output: { refunded: 5 },
        approval: expect.objectContaining({ approved: true }),
      }),
    );
    expect(page.errors).toEqual([]);
    expect(await (await runOf(agent)).settled()).toMatchObject({ status: 'finished', text: 'Done.' });
  });

  test('shows a denial, whose reason the model reads', async () => {
    const agent = makeAgent([calling('refund'), { text: 'Not done.' }]);
    const page = new ChatPage(agent);
    await page.chat.sendMessage({ text: 'go' });
    await page.decide(page.open()[0], false, 'too much');
    expect(page.tools()).toEqual(['tool-refund: output-denied']);
    expect(page.text).toBe('I will.|Not done.');
    await expectSameAfterReload(page, agent);
    const { transcript } = (await runOf(agent)).context;
    expect(JSON.stringify(transcript)).toContain('too much');
  });

  test('applies each approval at once when only some are posted, and answers with what is open', async () => {
    const agent = makeAgent([calling('refund', 'refund'), { text: 'Done.' }]);
    const page = new ChatPage(agent, { automatic: false });
    await page.chat.sendMessage({ text: 'go' });
    const [first, second] = page.open();
    await page.decide(first, true);
    await page.chat.sendMessage();
    expect(page.tools()).toEqual(['tool-refund: output-available', 'tool-refund: approval-requested']);
    expect(page.open()).toEqual([second]);
    await page.decide(second, false);
    await page.chat.sendMessage();
    expect(page.tools()).toEqual(['tool-refund: output-available', 'tool-refund: output-denied']);
    expect(page.text).toBe('I will.|Done.');
    await expectSameAfterReload(page, agent);
  });

  test('an approval that another person has decided answers with its outcome, and decides nothing', async () => {
    const agent = makeAgent([calling('refund'), { text: 'Done.' }]);
    const page = new ChatPage(agent);
    await page.chat.sendMessage({ text: 'go' });
    const run = await runOf(agent);
    await run.approve(run.context.calls[0]?.callId ?? '', { by: 'ann' });
    await run.settled();
    await page.decide(page.open()[0], false);
    expect(page.tools()).toEqual(['tool-refund: output-available']);
    expect(page.text).toBe('I will.|Done.');
    expect(page.errors).toEqual([]);
    await expectSameAfterReload(page, agent);
  });

  test('asks again about a call that was edited, with its new input, and shows what ran', async () => {
    const agent = makeAgent([calling('refund'), { text: 'Done.' }]);
    const page = new ChatPage(agent);
    await page.chat.sendMessage({ text: 'go' });
    const run = await runOf(agent);
    await run.editCall('call_0_0', { input: { cents: 3 }, by: 'ann' });
    const reloaded = new ChatPage(agent, { messages: await toUIMessages(run) });
    expect(toolsIn(reloaded.last)).toMatchObject([{ state: 'approval-requested', input: { cents: 3 } }]);
    await reloaded.decide(reloaded.open()[0], true);
    const shown = { state: 'output-available', input: { cents: 3 }, output: { refunded: 3 } };
    expect(toolsIn(reloaded.last)).toMatchObject([shown]);
    await expectSameAfterReload(reloaded, agent);
  });

  test('an approval of an input that was edited meanwhile decides nothing, and the page is asked about the new one', async () => {
    const agent = makeAgent([calling('refund'), { text: 'Done.' }]);
    const page = new ChatPage(agent);
    await page.chat.sendMessage({ text: 'go' });
    const run = await runOf(agent);
    await run.editCall('call_0_0', { input: { cents: 3 }, by: 'ann' });
    await page.decide(page.open()[0], true);
    expect(toolsIn(page.last)).toMatchObject([{ state: 'approval-requested', input: { cents: 3 } }]);
    expect(page.requests).toHaveLength(2);
    await page.decide(page.open()[0], true);
    expect(toolsIn(page.last)).toMatchObject([{ state: 'output-available', output: { refunded: 3 } }]);
    expect(page.errors).toEqual([]);
    await expectSameAfterReload(page, agent);
  });

  test('the same answer posted twice acts once', async () => {
    const agent = makeAgent([calling('refund'), { text: 'Done.' }]);
    const handler = createChatHandler(agent);
    const page = new ChatPage(handler);
    await page.chat.sendMessage({ text: 'go' });
    await page.decide(page.open()[0], true);
    const { body = '' } = page.requests[1] ?? {};
    const again = await handler(new Request('http://shop.example/api/chat', { method: 'POST', body }));
    expect(await again.text()).toContain('"refunded":5');
    const run = await runOf(agent);
    const started = (await agent.store.read(run.id)).filter(({ event }) => event.type === 'tool.started');
    expect(started).toHaveLength(1);
  });

  test('a message while an approval is open gets a new message, with the open call again, and leaves the old one alone', async () => {
    const agent = makeAgent([calling('refund'), { text: 'Done, blue.' }]);
    const page = new ChatPage(agent);
    await page.chat.sendMessage({ text: 'go' });
    const old = structuredClone(page.last);
    await page.chat.sendMessage({ text: 'make it blue' });
    expect(page.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
    expect(page.messages[1]).toEqual(old);
    expect(page.last.id).not.toBe(old.id);
    expect(page.tools()).toEqual(['tool-refund: approval-requested']);
    expect(page.open()).not.toEqual(page.open(old));
    await page.decide(page.open()[0], true);
    expect(page.tools()).toEqual(['tool-refund: output-available']);
    expect(page.text).toBe('Done, blue.');
    expect(page.errors).toEqual([]);
    const [, before, , after] = await toUIMessages(await runOf(agent));
    expect(page.tools(before as UIMessage)).toEqual(['tool-refund: output-available']);
    expect(after).toEqual(page.last);
  });

  test('the old card of such a call decides it too', async () => {
    const agent = makeAgent([calling('refund'), { text: 'Done, blue.' }]);
    const page = new ChatPage(agent, { automatic: false });
    await page.chat.sendMessage({ text: 'go' });
    const [old] = page.open();
    await page.chat.sendMessage({ text: 'make it blue' });
    await page.decide(old, true);
    await page.chat.sendMessage();
    expect(page.errors).toEqual([]);
    expect(page.tools(page.messages[1])).toEqual(['tool-refund: output-available']);
    expect(await (await runOf(agent)).settled()).toMatchObject({ status: 'finished', text: 'Done, blue.' });
  });

  test('answers the calls of the page', async () => {
    const agent = makeAgent([calling('ask'), { text: 'Blue it is.' }]);
    const page = new ChatPage(agent);
    await page.chat.sendMessage({ text: 'go' });
    expect(page.tools()).toEqual(['tool-ask: input-available']);
    const [call] = (await runOf(agent)).context.calls;
    await page.chat.addToolOutput({ tool: 'ask', toolCallId: call?.callId ?? '', output: 'blue' });
    await page.idle();
    expect(page.text).toBe('I will.|Blue it is.');
    await expectSameAfterReload(page, agent);
  });

  test('a message while calls of the page are open shows them again, and one answer posts nothing in a loop', async () => {
    const agent = makeAgent([calling('ask', 'ask'), { text: 'Blue it is.' }]);
    const page = new ChatPage(agent);
    await page.chat.sendMessage({ text: 'go' });
    await page.chat.sendMessage({ text: 'hurry' });
    expect(page.tools()).toEqual(['tool-ask: input-available', 'tool-ask: input-available']);
    await page.chat.addToolOutput({ tool: 'ask', toolCallId: 'call_0_0', output: 'blue' });
    await page.chat.sendMessage();
    await page.idle();
    expect(page.tools()).toEqual(['tool-ask: output-available', 'tool-ask: input-available']);
    expect(page.requests).toHaveLength(3);
    await page.chat.addToolOutput({ tool: 'ask', toolCallId: 'call_0_1', output: 'red' });
    await page.chat.sendMessage();
    await page.idle();
    expect([page.text, page.errors]).toEqual(['Blue it is.', []]);
    await expectSameAfterReload(page, agent);
  });

  test('answers the call of the page that a sub-agent makes', async () => {
    const clerk = createAgent({
      name: 'clerk',
      model: scripted([calling('ask'), { text: 'Blue.' }]),
      tools: TOOLS,
    });
    const asking: ScriptedTurn = { toolCalls: [{ name: 'ask_clerk', arguments: { input: 'go' } }] };
    const agent = makeAgent([asking, { text: 'Blue it is.' }], {
      tools: [clerk.asTool({ name: 'ask_clerk', description: 'Asks.' })],
    });
    const page = new ChatPage(agent);
    await page.chat.sendMessage({ text: 'go' });
    expect(page.tools()).toEqual(['tool-ask_clerk: output-available', 'tool-ask: input-available']);
    expect(page.requests).toHaveLength(1);
    expect(await (await createChatHandler(agent)(get('chat%201'))).json()).toEqual(page.messages);
    const { toolCallId = '' } = toolsIn(page.last).at(-1) ?? {};
    await page.chat.addToolOutput({ tool: 'ask', toolCallId, output: 'blue' });
    await page.idle();
    expect(toolsIn(page.last)).toMatchObject([{ output: 'Blue.' }, { output: 'blue' }]);
    expect([page.text, page.errors]).toEqual(['Blue it is.', []]);
    expect(page.requests).toHaveLength(2);
  });

  test('shows failures of tools and runs without what they said, and does not ask again forever', async () => {
    const agent = makeAgent([calling('fail'), { error: { code: 'authentication', message: SECRET } }]);
    const page = new ChatPage(agent);
    await page.chat.sendMessage({ text: 'go' });
    expect(page.tools()).toEqual(['tool-fail: output-error']);
    expect(page.chat.status).toBe('error');
    expect(page.errors).toHaveLength(1);
    expect(JSON.stringify([page.messages, page.errors])).not.toContain(SECRET);
    expect(page.requests).toHaveLength(1);
    const shown = new ChatPage(
      createChatHandler(makeAgent([calling('fail'), { text: 'Sorry.' }]), {
        onError: ({ message }) => message,
      }),
    );
    await shown.chat.sendMessage({ text: 'go' });
    expect(JSON.stringify(shown.messages)).toContain(SECRET);
  });

  test('shows a call in doubt as failed, so that the page does not post it again and again', async () => {
    const agent = makeAgent([calling('charge'), { text: 'Done.' }]);
    const page = new ChatPage(agent);
    await page.chat.sendMessage({ text: 'go' });
    await page.decide(page.open()[0], true);
    expect(page.tools()).toEqual(['tool-charge: output-error']);
    expect(page.requests).toHaveLength(2);
    const run = await runOf(agent);
    await run.resolve(run.context.calls[0]?.callId ?? '', { happened: true, output: 'paid' });
    await run.settled();
    const messages = await toUIMessages(run);
    expect(page.tools(messages[1] as UIMessage)).toEqual(['tool-charge: output-available']);
  });

  test('stays with one request when an approved run is paused', async () => {
    const agent = makeAgent([calling('refund'), { text: 'Done.' }]);
    const page = new ChatPage(agent);
    await page.chat.sendMessage({ text: 'go' });
    await (await runOf(agent)).pause();
    await page.decide(page.open()[0], true);
    expect(page.requests).toHaveLength(2);
    expect(page.tools()).toEqual(['tool-refund: approval-responded']);
  });

  test('a second message continues the conversation in a run of its own', async () => {
    const agent = makeAgent([{ text: 'One.' }, { text: 'Two.' }]);
    const page = new ChatPage(agent);
    await page.chat.sendMessage({ text: 'first' });
    await page.chat.sendMessage({ text: 'second' });
    expect(page.text).toBe('Two.');
    const { runs } = await agent.store.list();
    expect(runs.map(({ thread, place }) => [thread, place])).toEqual([
      ['chat 1', 2],
      ['chat 1', 1],
    ]);
    await expectSameAfterReload(page, agent);
  });

  test('regenerates an answer in a fork, also an earlier one', async () => {
    const agent = makeAgent([{ text: 'One.' }, { text: 'Two.' }]);
    const page = new ChatPage(agent);
    await page.chat.sendMessage({ text: 'first' });
    await page.chat.sendMessage({ text: 'second' });
    const [, first, , second] = page.messages.map(({ id }) => id);
    await page.chat.regenerate();
    expect(page.messages.map(({ id }) => id).slice(0, 2)).toEqual([page.messages[0]?.id, first]);
    expect(page.last.id).not.toBe(second);
    expect(page.text).toBe('Two.');
    const reload = async () => await (await createChatHandler(agent)(get('chat%201'))).json();
    expect(await reload()).toEqual(page.messages);
    await page.chat.regenerate({ messageId: first ?? '' });
    expect(page.messages).toHaveLength(2);
    expect(page.last.id).not.toBe(first);
    expect(await reload()).toEqual(page.messages);
    const forks = (await agent.store.list()).runs.filter(({ forkOf }) => forkOf !== undefined);
    expect(forks).toHaveLength(2);
  });

  test('regenerating after a message within a run keeps the ids of what came before', async () => {
    const agent = makeAgent([calling('refund'), { text: 'Done.' }]);
    const page = new ChatPage(agent);
    await page.chat.sendMessage({ text: 'go' });
    await page.chat.sendMessage({ text: 'hurry' });
    const ids = page.messages.map(({ id }) => id);
    await page.chat.regenerate();
    expect(page.messages.map(({ id }) => id).slice(0, 3)).toEqual(ids.slice(0, 3));
    expect(page.last.id).not.toBe(ids[3]);
    await page.decide(page.open()[0], true);
    expect(page.text).toBe('Done.');
    const statuses = (await agent.store.list()).runs.map(({ status }) => status);
    expect(statuses.toSorted()).toEqual(['cancelled', 'finished']);
  });

  test('replaces an edited message', async () => {
    const agent = makeAgent([{ text: 'One.' }, { text: 'Two.' }]);
    const page = new ChatPage(agent);
    await page.chat.sendMessage({ text: 'frist' });
    await page.chat.sendMessage({ text: 'first', messageId: page.messages[0]?.id ?? '' });
    expect(page.messages).toHaveLength(2);
    expect(await (await createChatHandler(agent)(get('chat%201'))).json()).toEqual(page.messages);
  });
});

function get(path: string): Request {
  return new Request(`http://shop.example/api/chat/${path}`);
}
