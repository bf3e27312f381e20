import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { openaiChat } from '../../adapters/openai-chat.ts';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, memory, tool } from '../../agent/index.ts';
import { calls, makeTool } from '../support/engine/agents.ts';
import { inAll } from '../support/sample.ts';
import { CHROMIUM, decideWith } from '../support/visualizer/browser.ts';
import { makeDemoAgents } from '../support/visualizer/demo-agents.ts';
import { makeFamily } from '../support/visualizer/family.ts';
import { servePages } from '../support/visualizer/visits.ts';

const REPORT = Array.from({ length: 120 }, (_, line) => `Line ${line + 1} of the report.`).join('\n');

describe.skipIf(CHROMIUM === undefined)('the run view', () => {
  const store = memory();
  const publish = tool({
    name: 'publish',
    description: 'Publishes a report.',
    input: z.object({ report: z.string() }),
    approval: true,
    run: () => 'published',
  });
  const publisher = createAgent({
    name: 'publisher',
    store,
    tools: [publish],
    model: scripted([
      { toolCalls: [{ name: 'publish', arguments: { report: REPORT } }] },
      { text: 'See the raw [doc:1].' },
    ]),
    guardrails: { answer: () => ({ type: 'replace', value: 'See the **checked** answer.' }) },
  });
  const failing = createAgent({
    name: 'failing',
    store,
    retry: { attempts: 4, baseMs: 1 },
    model: scripted([
      {
        error: {
          code: 'overloaded',
          status: 529,
          message: '529 {"error":{"message":"Try later"}}',
          times: 3,
        },
      },
      { text: 'Here now.' },
    ]),
  });
  const used = (inputTokens: number, cachedInputTokens: number) => ({
    usage: { inputTokens, outputTokens: 400, cachedInputTokens },
  });
  const breaking = createAgent({
    name: 'breaking',
    store,
    tools: ['look', 'other'].map(name => makeTool(name, { sideEffect: 'none' })),
    model: scripted([
      { ...calls('look'), ...used(12_000, 0) },
      { text: 'Seen.', ...used(20_000, 0) },
    ]),
    prices: { script: { input: 3, output: 15, cachedInput: 0.3 } },
    prepareTurn: ({ turns }) => ({ tools: turns < 1 ? ['look'] : ['look', 'other'] }),
  });
  const compacting = createAgent({
    name: 'compacting',
    store,
    tools: [makeTool('look', { sideEffect: 'none' })],
    model: scripted([
      { text: 'First look.', ...calls('look'), ...used(1_000, 0) },
      { text: 'Second look.', ...calls('look'), ...used(3_000, 900) },
      { text: 'Seen.', ...used(600, 0) },
    ]),
    compaction: { at: 2000, summarize: () => 'They looked twice.' },
  });
  const billing = createAgent({ name: 'billing', model: scripted([{}, { text: 'You owe **5**.' }]) });
  const frontDesk = createAgent({
    name: 'front_desk',
    store,
    model: scripted([{ text: 'One moment.', ...calls('transfer_to_billing') }]),
    handoffs: [billing],
  });
  const studio = createAgent({
    name: 'studio',
    store,
    tools: [makeTool('render', { background: true, run: () => 'rendered' })],
    model: scripted([calls('render'), { text: 'Started.' }, { text: 'Ready.' }]),
  });
  const completion = { choices: [{ message: { content: 'Kept.' }, finish_reason: 'stop' }] };
  const captured = createAgent({
    name: 'captured',
    store,
    capture: 'requests',
    model: openaiChat({
      model: 'm',
      apiKey: 'key',
      baseURL: 'http://127.0.0.1:9/v1',
      fetch: async () => Response.json(completion),
    }),
  });
  const desk = servePages([
    ...makeDemoAgents(store).agents,
    ...makeFamily(store),
    publisher,
    failing,
    captured,
    breaking,
    compacting,
    frontDesk,
    studio,
  ]);

  async function rest(agent: string): Promise<string> {
    return `/runs/${(await desk.startAtRest(agent, 'Continue')).id}`;
  }

  async function visit(path: string): Promise<Page> {
    return (await desk.visit(path)).page;
  }

  test('a command whose reply is lost is looked up in the journal, and is not sent again', async () => {
    const page = await visit(await rest('refunds'));
    let sent = 0;
    await page.route('**/approve', async route => {
      sent += 1;
      await route.fetch();
      await route.abort();
    });
    await decideWith(page.getByRole('button', { name: 'Approve' }));
    await page
      .getByText('The reply was lost, but the command was taken: the journal has it as entry 12.')
      .waitFor();
    await page.locator('#state-finished.current').waitFor();
    expect(sent).toBe(1);
    await expect.poll(() => page.evaluate('document.activeElement.tagName')).toBe('H1');
  });

  inAll(
    "the inspector links to what was captured of an agent's model calls, and of no other agent's",
    async () => {
      const link = async (agent: string) => {
        const run = await desk.start(agent, 'Go.');
        const page = await visit(`/runs/${run.id}`);
        await page.getByRole('slider', { name: 'Entry' }).press('End');
        for (let at = 0; at < 3; at += 1) {
          const found = page.getByRole('link', { name: 'Request to the provider and its reply' });
          if ((await found.count()) > 0) return await found.getAttribute('href');
          await page.getByRole('slider', { name: 'Entry' }).press('ArrowLeft');
        }
        return null;
      };
      const href = await link('captured');
      const response = await fetch(`${desk.url}${href}`);
      expect(await response.json()).toMatchObject([{ path: '/chat/completions', status: 200 }]);
      expect(await link('publisher')).toBeNull();
    },
  );

  test('a break of the prefix is a row of the waterfall with its cost, and a fact of its turn', async () => {
    const page = await visit(`${await rest('breaking')}?tab=waterfall`);
    const told = 'broken by tools: 12,400 tokens read again ($0.0335)';
    const rows = page.locator('.fall');
    await rows.filter({ hasText: told }).waitFor();
    const texts = await rows.allInnerTexts();
    expect(texts.map(text => text.split('\n')[0])).toEqual(['turn 1', 'look', 'prefix', 'turn 2']);
    expect(texts[3]).toContain('20,000 → 400 tok · 0% cached');
    await rows.nth(2).click();
    const inspector = page.getByRole('complementary', { name: 'Inspector' });
    await inspector.getByText(told).waitFor();
    await inspector.getByText('0 cached', { exact: true }).waitFor();
    await page.getByText('32,000 → 800 tokens · 0 cached').waitFor();
  });

  test('the answer of the agent to which a conversation was handed has its name, and leads to its run', async () => {
    const page = await visit(await rest('front_desk'));
    const answer = page.locator('.block', { hasText: 'handed over' });
    await expect.poll(() => answer.locator('.who strong').innerText()).toBe('billing');
    await expect.poll(() => answer.locator('.prose strong, strong').last().innerText()).toBe('5');
    await page.getByText('front_desk → billing').waitFor();
    await answer.getByRole('link', { name: 'Its run' }).click();
    await page.getByText('started by').waitFor();
  });

  test('work in the background is beside its run: its call leads to it, and its outcome is told', async () => {
    const page = await visit(await rest('studio'));
    await page.getByText('Outcome of the work of render').click();
    const conversation = page.getByRole('region', { name: 'Conversation' });
    await conversation.getByText('rendered', { exact: true }).waitFor();
    await page.getByRole('tab', { name: 'Tree' }).click();
    await page.locator('.tree-line', { hasText: 'render' }).waitFor();
    await page.getByRole('tab', { name: 'Conversation' }).click();
    const call = page.getByText('The work is in the background');
    await call.getByRole('link').click();
    await page.getByText('started by').waitFor();
    await conversation
      .getByRole('article', { name: 'render' })
      .or(conversation.locator('.call'))
      .first()
      .waitFor();
    await conversation.getByText('rendered').first().waitFor();
  });

  test('the tree has the runs of sub-agents, and of theirs, each with what it waits for', async () => {
    const page = await visit(`${await rest('shop')}?tab=tree`);
    const lines = page.locator('.tree-line');
    await expect.poll(() => lines.locator('.agent').allInnerTexts()).toEqual(['shop', 'desk', 'payer']);
    await expect
      .poll(() => lines.last().innerText())
      .toMatch(/resting\.awaitingApproval · 1 turn · 1 open decision$/);
    await expect.poll(() => page.getByText('open decision').count()).toBe(1);
    await decideWith(page.getByRole('button', { name: 'Approve', exact: true }));
    await expect.poll(() => lines.locator('.status').allInnerTexts()).toEqual(Array(3).fill('finished'));
  });

  test('a compaction is a row of the waterfall, its summary can be read, and so can what it replaced', async () => {
    const page = await visit(await rest('compacting'));
    await page.getByText('Transcript compacted: a summary replaces 3 items for the model').click();
    const conversation = page.getByRole('region', { name: 'Conversation' });
    await conversation.getByText('They looked twice.').waitFor();
    await conversation.getByText('First look.').waitFor();
    await page.getByRole('tab', { name: 'Waterfall' }).click();
    const row = page.locator('.fall').filter({ hasText: '3 items replaced · of 3,400 tok' });
    await row.click();
    const inspector = page.getByRole('complementary', { name: 'Inspector' });
    await inspector.getByText('They looked twice.').waitFor();
    await inspector.getByText('3,400 tokens').waitFor();
    const ticks = page.locator('.axis .tick');
    await expect.poll(() => ticks.first().innerText()).toBe('0');
    await expect.poll(() => ticks.last().innerText()).toMatch(/^[\d.,]+ m?s$/);
    const names = (await page.locator('.fall').allInnerTexts()).map(text => text.split('\n')[0]);
    expect(names).toEqual(['turn 1', 'look', 'turn 2', 'look', 'compact', 'prefix', 'turn 3']);
  });

  test('a long text to approve is a text, its unseen part is marked, and the button stays in view', async () => {
    const page = await visit(await rest('publisher'));
    const approve = page.getByRole('button', { name: 'Approve' });
    await page.getByText('not read to the end').waitFor();
    const box = page.getByRole('region', { name: 'Input of publish' });
    await expect.poll(() => box.innerText()).toContain('Line 1 of the report.\nLine 2 of the report.');
    const { y = 0, height = 0 } = (await approve.boundingBox()) ?? {};
    expect(y + height).toBeLessThan(page.viewportSize()?.height ?? 0);
    await page.evaluate(`document.querySelector('.seen-scroll').scrollTo(0, 1e6)`);
    await page.getByText('not read to the end').waitFor({ state: 'detached' });
    await decideWith(approve);
    await page.locator('.reply strong', { hasText: 'checked' }).waitFor();
    await expect
      .poll(() => page.locator('.reply .markdown').last().innerText())
      .toBe('See the checked answer.');
  });

  inAll('equal failures of a turn are one, in the words of the provider', async () => {
    const page = await visit(await rest('failing'));
    await page.getByText('3 attempts (1 to 3)').waitFor();
    await expect.poll(() => page.locator('.error-block .long.prose').innerText()).toBe('529 Try later');
    await expect.poll(() => page.locator('.error-block').count()).toBe(1);
  });

  inAll('a draft outlives a reload', async () => {
    const page = await visit(await rest('refunds'));
    await page.getByRole('button', { name: 'Reject…' }).click();
    await page.getByLabel('Reason').fill('half a reason');
    await page.reload();
    await page.getByRole('button', { name: 'Reject…' }).click();
    await expect.poll(() => page.getByLabel('Reason').inputValue()).toBe('half a reason');
  });

  test('the cursor moves all panes, is in the address, and playing back sends nothing but reads', async () => {
    const page = await visit(await rest('refunds'));
    const methods = new Set<string>();
    page.on('request', request => methods.add(request.method()));
    const cursor = page.getByRole('slider', { name: 'Entry' });
    await expect.poll(() => cursor.getAttribute('aria-valuenow')).toBe('11');
    await cursor.press('ArrowLeft');
    await expect.poll(() => cursor.getAttribute('aria-valuenow')).toBe('10');
    await page.getByRole('heading', { name: /^Entry 10 / }).waitFor();
    await page.getByRole('heading', { name: 'Chart at entry 10' }).waitFor();
    await expect.poll(() => new URL(page.url()).searchParams.get('at')).toBe('10');
    await cursor.press('Home');
    await expect.poll(() => cursor.getAttribute('aria-valuenow')).toBe('1');
    await expect.poll(() => page.locator('.call').count()).toBe(0);
    await page.reload();
    await page.getByRole('heading', { name: /^Entry 1 / }).waitFor();
    await cursor.press('End');
    await expect.poll(() => cursor.getAttribute('aria-valuenow')).toBe('11');
    await expect.poll(() => new URL(page.url()).searchParams.get('at')).toBeNull();
    expect([...methods]).toEqual(['GET']);
  });

  inAll('the inspector does not repeat the answer that the conversation shows', async () => {
    const page = await visit(await rest('flaky'));
    const inspector = page.getByRole('complementary', { name: 'Inspector' });
    await inspector.getByText('The text of 9 characters is in the conversation.').waitFor();
    await expect.poll(() => inspector.getByText('Here now.').count()).toBe(0);
    await page.getByRole('tab', { name: 'Waterfall' }).click();
    await inspector.getByText('Here now.').waitFor();
  });
});
