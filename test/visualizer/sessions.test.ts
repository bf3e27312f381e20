import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { ScriptedTurn } from '../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, type Item, tool } from '../../agent/index.ts';
import { memory } from '../../stores/memory.ts';
import { CHROMIUM } from '../support/visualizer/browser.ts';
import { servePages } from '../support/visualizer/visits.ts';

const ID = '01a22241-502a-7af0-9127-5e038ab512bc';
const HOSTILE = '<img src=x onerror=alert(1)>';
const AGAIN = `Again ${HOSTILE}`;

const said = (text: string, role: 'user' | 'developer' | 'assistant' = 'user'): Item => ({
  type: 'message',
  role,
  content: [{ type: 'text', text }],
});

/** What a client sends with its second prompt. */
const HISTORY: Item[] = [
  said('You are a coding agent.', 'developer'),
  said('<environment_context>cwd: /home/ada</environment_context>'),
  said('Fix the parser'),
  { type: 'reasoning', text: 'I should look at the file first.' },
  { type: 'tool_call', callId: 'c1', name: 'shell', arguments: '{"command":"cat parse.ts"}' },
  { type: 'tool_result', callId: 'c1', output: HOSTILE, isError: false },
  { type: 'tool_call', callId: 'c2', name: 'apply_patch', arguments: '{"patch":"*** Begin Patch"}' },
  { type: 'tool_result', callId: 'c2', output: 'no such file', isError: true },
  { type: 'provider_item', kind: 'setup', opaque: { provider: 'openai', data: { tools: ['add_numbers'] } } },
  said('The parser is **fixed**.', 'assistant'),
  said('Now the printer'),
];

describe.skipIf(CHROMIUM === undefined)('a session', () => {
  const desk = servePages(async () => {
    const usage = { inputTokens: 1_000, outputTokens: 50, cachedInputTokens: 700 };
    const turn: ScriptedTurn = { text: 'The **printer** prints.', usage };
    const agent = createAgent({
      name: 'responses',
      store: memory(),
      model: scripted(Array.from({ length: 4 }, () => turn)),
    });
    const begin = async (input: string | Item[], labels: Record<string, string>) =>
      await (await agent.start(input, { labels })).settled();
    await begin(HISTORY.slice(0, 3), { session: ID });
    await begin(HISTORY, { session: ID });
    await begin('Search the tests', { session: ID, thread: 'agent-7' });
    await begin('Something else', {});
    return [agent];
  });

  test('and a thread is one row too, and one conversation with its runs', async () => {
    const store = memory();
    const said = [{ text: 'Hello, **ada**.' }, { text: 'Still here.' }];
    const chat = createAgent({ name: 'chat', store, model: scripted(said) });
    const labels = { user: 'ada' };
    for (const text of ['Hi there', AGAIN])
      await (await chat.start(text, { thread: 'c1', labels })).settled();
    await (await chat.start('Hi too', { thread: 'c1', labels: { user: 'bob' } })).settled();
    await desk.stop();
    await desk.serve([chat]);
    const { page, problems } = await desk.visit('/runs');
    const row = page.getByRole('row', { name: 'Hi there' });
    await row.getByText('thread · 2 runs').waitFor();
    await expect.poll(() => page.locator('.run-row:has(a)').count()).toBe(2);
    await row.getByRole('link').first().click();
    await page.getByRole('heading', { name: 'Hi there' }).waitFor();
    expect(page.url()).toBe(`${desk.url}/threads/c1?label=user%3Dada`);
    const conversation = page.getByRole('region', { name: 'Conversation' });
    const messages = await conversation.locator('.block').allInnerTexts();
    expect(messages.map(text => text.replace(/\s+Source$/, ''))).toEqual([
      'Hi there',
      'Hello, ada.',
      AGAIN,
      'Still here.',
    ]);
    expect((await page.locator('main .facts').innerText()).replaceAll(/\s+/g, ' ')).toMatch(
      /Thread c1 Turns 2/,
    );
    const runs = page.getByRole('region', { name: 'Runs' }).getByRole('link');
    await expect.poll(() => runs.count()).toBe(2);
    await page.reload();
    await page.getByRole('heading', { name: 'Hi there' }).waitFor();
    await runs.last().click();
    await page.getByText('Hello, ada.').waitFor();
    expect(problems).toEqual([]);
  });

  test('is one row of the list, named by its first prompt, and one conversation with what it used', async () => {
    const { page, problems } = await desk.visit('/runs');
    const row = page.getByRole('row', { name: 'Fix the parser' });
    await row.getByText('session · 3 runs').waitFor();
    await expect.poll(() => page.locator('.run-row:has(a)').count()).toBe(2);
    await row.getByText('3,150').waitFor();
    await row.getByRole('link', { name: 'Fix the parser' }).click();
    await page.getByRole('heading', { name: 'Fix the parser' }).waitFor();
    expect(new URL(page.url()).pathname).toBe(`/sessions/${ID}`);
    const facts = await page.locator('main .facts').innerText();
    expect(facts.replaceAll(/\s+/g, ' ')).toMatch(
      /Turns 3 Tools shell ×1, apply_patch ×1 Tokens 3,150 Input from the cache 70 %/,
    );
    const conversation = page.getByRole('region', { name: 'Conversation' });
    await expect
      .poll(() => conversation.locator('.block.message').allInnerTexts())
      .toEqual(['Fix the parser', 'Now the printer']);
    await expect
      .poll(() => conversation.locator('.block.reply strong').allInnerTexts())
      .toEqual(['fixed', 'printer']);
    await expect.poll(() => conversation.locator('.badge').allInnerTexts()).toEqual(['done', 'error']);
    await conversation.getByText('Added by the client').click();
    await conversation.getByText('cwd: /home/ada').waitFor();
    await conversation.getByText('result').first().click();
    await conversation.getByText(HOSTILE).last().waitFor();
    await conversation.getByText('Tools or instructions that changed').click();
    await conversation.getByText('add_numbers').waitFor();
    const side = page.getByRole('region', { name: 'Sub-agents and side tasks' });
    await expect.poll(() => side.getByRole('listitem').count()).toBe(1);
    await side.getByRole('link', { name: 'Search the tests' }).click();
    await page.getByRole('heading', { name: 'Search the tests' }).waitFor();
    expect(problems).toEqual([]);
  });

  test('counts what a fork copies once', async () => {
    const usage = { inputTokens: 1_000, outputTokens: 50, cachedInputTokens: 700 };
    const coder = createAgent({
      name: 'coder',
      store: memory(),
      model: scripted([
        { toolCalls: [{ name: 'look', arguments: {} }], usage },
        { text: 'It is **fixed**.', usage },
      ]),
      tools: [
        tool({
          name: 'look',
          description: 'Looks.',
          input: z.object({}),
          sideEffect: 'none',
          run: () => 'nothing',
        }),
      ],
    });
    const run = await coder.start('Fix the parser', { labels: { session: ID } });
    await run.settled();
    const entries = await coder.store.read(run.id);
    const at = entries.find(({ event }) => event.type === 'tool.settled')?.seq ?? 0;
    await (await run.fork({ at })).settled();
    await desk.stop();
    await desk.serve([coder]);
    const { page } = await desk.visit(`/sessions/${ID}`);
    await page.getByText('fixed').waitFor();
    const facts = await page.locator('main .facts').innerText();
    expect(facts.replaceAll(/\s+/g, ' ')).toMatch(/Turns 3 Tools look ×1 Tokens 3,150 /);
  });

  test('opens to its runs, and one that does not exist says so', async () => {
    const { page } = await desk.visit(`/sessions/${ID}`);
    await page.getByRole('link', { name: 'Only the runs' }).click();
    await page.getByText(/^3 runs · /).waitFor();
    await expect.poll(() => page.locator('.run-row:has(a)').count()).toBe(3);
    const none = await desk.visit('/sessions/none');
    await none.page.getByText('There is no run of this session here.').waitFor();
  });
});
