import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, memory, type Run, tool } from '../../agent/index.ts';
import type { Breakpoint } from '../../protocol/debugger/breakpoint.ts';
import { inAll } from '../support/sample.ts';
import { CHROMIUM, type WatchedPage } from '../support/visualizer/browser.ts';
import { servePages } from '../support/visualizer/visits.ts';

const BOSS = 'the-token-of-boss-000000';
const VERA = { token: 'the-token-of-vera-000000', role: 'viewer' } as const;
const HOSTILE = '<img src=x onerror="document.title=1">\u202etxt';

describe.skipIf(CHROMIUM === undefined)('steering a run on the page', () => {
  const store = memory();
  const input = z.object({ orderId: z.string(), cents: z.int().positive() });
  const lookup = tool({
    name: 'lookup',
    description: 'Looks an order up.',
    input: z.object({ orderId: z.string() }),
    run: ({ orderId }) => ({ orderId }),
  });
  const refund = tool({
    name: 'refund',
    description: 'Pays money back.',
    input,
    run: ({ cents }) => ({ refunded: cents }),
  });
  const shop = createAgent({
    name: 'shop',
    store,
    tools: [lookup, refund],
    model: scripted([
      { text: 'I look it up.', toolCalls: [{ name: 'lookup', arguments: { orderId: 'A-1' } }] },
      {
        text: 'Paying back.',
        toolCalls: [
          { name: 'refund', arguments: { orderId: 'A-1', cents: 4200 } },
          { name: 'refund', arguments: { orderId: 'A-2', cents: 100 } },
        ],
      },
      { text: 'All done.' },
    ]),
  });
  const desk = servePages([shop], { token: BOSS, tokens: { vera: VERA } });

  /** A run that rests before its first model call, with these breakpoints, or before the first that they hold. */
  async function hold(breakpoints: Breakpoint[] = []): Promise<Run> {
    const run = await shop.start('Pay A-1 back', { paused: true });
    if (breakpoints.length > 0) await run.submit([{ type: 'breakpoints', breakpoints }, { type: 'unpause' }]);
    await run.settled();
    return run;
  }

  async function visit(run: Run, token: string = BOSS): Promise<WatchedPage> {
    const watched = await desk.visitWith(token, `/runs/${run.id}`, { width: 1440, height: 900 });
    await watched.page.locator('#hold-title').waitFor();
    watched.problems.splice(0);
    return watched;
  }

  const press = (page: Page, name: string | RegExp) => page.getByRole('button', { name }).click();
  const held = (page: Page, title: string) => page.getByRole('heading', { name: title }).waitFor();
  const outputsOf = (run: Run) =>
    run.context.transcript.flatMap(item => (item.type === 'tool_result' ? [item.output] : []));
  const journal = async (page: Page): Promise<string> => {
    await page.getByRole('tab', { name: /^Journal/ }).click();
    await page.locator('#tab-panel .entry').first().waitFor();
    return await page.locator('#tab-panel').innerText();
  };

  test('a breakpoint set from an edge hit, the reply edited, continued, the journal telling it', async () => {
    const run = await hold();
    const watched = await visit(run);
    const { page } = watched;
    await held(page, 'Paused before callModel');
    await press(page, 'Full chart');
    await page.locator('#edge-deciding--executingTools .line').dispatchEvent('click');
    const editor = page.getByRole('region', { name: 'Breakpoints' });
    await expect.poll(() => editor.getByLabel('Before').inputValue()).toBe('executeTools');
    await editor.getByLabel('Tool').fill('refund');
    await press(page, 'Add breakpoint');
    await editor.getByRole('listitem').getByText('before executeTools of refund').first().waitFor();
    await page.locator('#state-executingTools.breaks').waitFor();
    await press(page, 'Continue');
    await held(page, 'Held by breakpoint: before executeTools of refund');

    await press(page, 'Edit reply…');
    const focused = page.getByLabel('Text of the reply').and(page.locator(':focus'));
    await focused.waitFor();
    await page.getByLabel('Text of the reply').fill(`Paying back half. ${HOSTILE}`);
    await page.getByLabel('Input of call 1').fill('{ "orderId": "A-1", "cents": 2100 }');
    await press(page, 'Drop call 2');
    await press(page, 'Add a call');
    await page.getByLabel('Tool of call 3').fill('lookup');
    await page.getByLabel('Input of call 3').fill('{ "orderId": "A-9" }');
    await page.reload();
    await press(page, 'Edit reply…');
    await page.locator('.diff-line.removed', { hasText: '4200' }).waitFor();
    await page.locator('.diff-line.added', { hasText: 'Paying back half.' }).waitFor();
    await page.evaluate(`document.querySelector('.panel form').scrollTo(0, 1e6)`);
    expect(await watched.findBarriers()).toEqual([]);
    await page.getByRole('button', { name: 'Edit the reply' }).click();
    await page
      .getByRole('group')
      .getByText(/Reply edited/)
      .waitFor();
    await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('hold-title');
    await page.locator('.call[data-status="dropped"]').waitFor();
    await press(page, 'Continue');
    await page.locator('#state-finished.current').waitFor();
    await run.settled();
    expect(outputsOf(run)).toEqual([{ orderId: 'A-1' }, { refunded: 2100 }, { orderId: 'A-9' }]);
    await expect
      .poll(() => page.locator('.reply', { hasText: 'Paying back half. <img src=x' }).count())
      .toBe(1);
    await expect.poll(() => page.locator('.reply img').count()).toBe(0);
    const told = await journal(page);
    for (const type of ['breakpoints.set', 'turn.edited', 'run.unpaused']) expect(told).toContain(type);

    const edit = (await store.read(run.id)).find(({ event }) => event.type === 'turn.edited');
    await page.goto(`${desk.url}/runs/${run.id}?at=${(edit?.seq ?? 0) - 1}`);
    await page.locator('.call[data-status="ready"]').nth(1).waitFor();
    await expect.poll(() => page.locator('.call[data-status="dropped"]').count()).toBe(0);
    expect(watched.problems).toEqual([]);
  });

  inAll('Continue and Step beside an unsaved edit of a reply ask first, and Discard forgets it', async () => {
    const run = await hold([{ id: 'tools', next: 'executeTools', tool: 'refund' }]);
    const watched = await visit(run);
    const { page } = watched;
    await press(page, 'Edit reply…');
    await page.getByLabel('Text of the reply').fill('Paying back half.');
    for (const name of ['Continue', 'Step']) {
      await page.getByRole('button', { name, exact: true }).dblclick();
      await page.getByRole('button', { name: `${name} without the unsaved edit?` }).press('Escape');
    }
    await held(page, 'Held by breakpoint: before executeTools of refund');
    expect(outputsOf(await shop.open(run.id))).toEqual([{ orderId: 'A-1' }]);
    await press(page, 'Discard');
    await press(page, 'Continue');
    await page.locator('#state-finished.current').waitFor();
    expect(watched.problems).toEqual([]);
  });

  inAll(
    'the input of a held call is edited; what its tool refuses stays in the field, over a reload too',
    async () => {
      const run = await hold([
        { id: 'large', tool: 'refund', where: { path: 'input.cents', op: '>', value: 1_000 } },
      ]);
      const { page } = await visit(run);
      await held(page, 'Held by breakpoint: before calls of refund, where input.cents > 1000');
      await press(page, 'Edit input of refund (1)…');
      await page.getByRole('tab', { name: 'JSON', exact: true }).click();
      const field = page.getByLabel('Input of refund');
      await field.fill('{ "orderId": ');
      await page.getByText('Invalid JSON').waitFor();
      await field.fill('{ "orderId": "A-1", "cents": -5 }');
      await press(page, 'Edit the input');
      await page.getByText('The edited input is not valid for refund').waitFor();
      await page.reload();
      await press(page, 'Edit input of refund (1)…');
      await page.getByRole('tab', { name: 'JSON', exact: true }).click();
      await expect.poll(() => field.inputValue()).toBe('{ "orderId": "A-1", "cents": -5 }');
      await field.fill('{ "orderId": "A-1", "cents": 5 }');
      await press(page, 'Edit the input');
      await page.locator('.call .diff-line.added', { hasText: '"cents": 5' }).waitFor();
      await press(page, 'To the next turn');
      await held(page, 'Held by breakpoint: before each action that spends, in turn 3, once');
      expect(outputsOf(await shop.open(run.id))).toEqual([
        { orderId: 'A-1' },
        { refunded: 5 },
        { refunded: 100 },
      ]);
      expect(await journal(page)).toContain('call.edited');
    },
  );

  inAll(
    'a breakpoint is made from a call and from an entry, by keyboard, listed, removed and cleared; run to here holds once',
    async () => {
      const run = await hold([{ id: 'first', next: 'executeTools', once: true }]);
      const watched = await visit(run);
      const { page } = watched;
      const panel = page.getByRole('region', { name: 'Breakpoints' });
      await page.getByRole('heading', { name: /^Entry/ }).waitFor();
      await page.locator('.call').getByRole('button', { name: 'Break…' }).first().click();
      await expect.poll(() => panel.getByLabel('Tool').inputValue()).toBe('lookup');
      await panel.getByLabel('Tool').fill(HOSTILE);
      await panel.getByLabel('Where').fill('input.orderId');
      await panel.getByLabel('Value').fill(HOSTILE);
      await panel.getByLabel('Turn').fill('never');
      await page.keyboard.press('Enter');
      await panel.getByText('Expected a whole number from 1.').waitFor();
      await panel.getByLabel('Turn').fill('7');
      await page.reload();
      await page.locator('.call').getByRole('button', { name: 'Break…' }).first().click();
      await expect.poll(() => panel.getByLabel('Where').inputValue()).toBe('input.orderId');
      await expect.poll(() => panel.getByLabel('Turn').inputValue()).toBe('7');
      expect(await watched.findBarriers()).toEqual([]);
      await panel.getByLabel('Turn').press('Enter');
      await expect.poll(() => panel.getByRole('listitem').count()).toBe(2);
      await expect.poll(() => panel.innerText()).toContain('<img src=x onerror=');
      await expect.poll(() => panel.innerText()).toContain('\\u{202e}');
      expect(await page.title()).not.toBe('1');

      await panel.getByRole('button', { name: /^Remove before executeTools of <img/ }).click();
      await expect.poll(() => panel.getByRole('listitem').count()).toBe(1);
      await page.locator('h1').focus();
      await page.keyboard.press('b');
      await expect.poll(() => page.evaluate('document.activeElement.tagName')).toBe('SELECT');
      await panel.getByLabel('Tool').fill('refund');
      await press(page, 'Run to here');
      await held(page, 'Held by breakpoint: before executeTools of refund, once');
      await press(page, 'Step');
      await held(page, 'Paused before callModel');
      await expect.poll(() => panel.getByRole('listitem').count()).toBe(0);

      await run.setBreakpoints([
        { id: 'one', turn: 8 },
        { id: 'two', turn: 9 },
      ]);
      await panel.getByRole('listitem').nth(1).waitFor();
      await press(page, 'Clear all');
      await expect.poll(() => panel.getByRole('listitem').count()).toBe(0);
    },
  );

  inAll('a viewer sees what holds a run, and no controls', async () => {
    const run = await hold([{ id: 'tools', next: 'executeTools' }]);
    const watched = await visit(run, VERA.token);
    const { page } = watched;
    await held(page, 'Held by breakpoint: before executeTools');
    await page.getByRole('region', { name: 'Breakpoints' }).getByRole('listitem').waitFor();
    await page.locator('#state-executingTools').click();
    await page.keyboard.press('b');
    for (const name of ['Continue', 'Step', 'Edit', 'Break', 'Remove', 'Add a breakpoint'])
      await expect.poll(() => page.getByRole('button', { name }).count(), { message: name }).toBe(0);
  });

  inAll('a lost reply to "run to here" is looked up in the journal, and the list is sent once', async () => {
    const run = await hold();
    const watched = await visit(run);
    const { page } = watched;
    let sent = 0;
    await page.route('**/commands', async route => {
      sent += 1;
      await route.fetch();
      await route.abort();
    });
    await page.locator('#state-executingTools').click();
    await press(page, 'Run to here');
    await page.getByText(/the command was taken: the journal has it as entry/).waitFor();
    await held(page, 'Held by breakpoint: before executeTools, once');
    expect(sent).toBe(1);
  });
});
