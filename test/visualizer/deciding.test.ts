import type { Locator, Page } from 'playwright-core';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, memory, type Run, tool } from '../../agent/index.ts';
import { inAll, sampled } from '../support/sample.ts';
import { CHROMIUM, type WatchedPage } from '../support/visualizer/browser.ts';
import { servePages } from '../support/visualizer/visits.ts';

/** The time that events have moves only when a test moves it. */
const CLOCK = `globalThis.now = 1; Object.defineProperty(Event.prototype, 'timeStamp', { get: () => now });`;

const ORDERS = [1, 2, 3, 4, 5, 6].map(number => `B-${number}`);

describe.skipIf(CHROMIUM === undefined)('deciding on the page', () => {
  const store = memory();
  const refund = tool({
    name: 'refund',
    description: 'Pays money back.',
    input: z.object({ orderId: z.string(), cents: z.int() }),
    approval: true,
    run: ({ cents }) => ({ refunded: cents }),
  });
  const shop = createAgent({
    name: 'shop',
    store,
    tools: [refund],
    model: scripted([
      {
        text: 'Paying back.',
        toolCalls: ORDERS.map(orderId => ({ name: 'refund', arguments: { orderId, cents: 4200 } })),
      },
      { text: 'All done.' },
    ]),
  });
  const desk = servePages([shop]);
  let run: Run;
  let page: Page;
  let watched: WatchedPage;
  beforeEach(async () => {
    run = await shop.start('Six parcels came back.');
    await run.settled();
  });
  afterEach(async () => {
    expect(watched.problems.filter(problem => !/40[09]|404 .*\/inbox\//.test(problem))).toEqual([]);
    // A page with a clock of its own is not used again.
    await page.context().close();
    await run.cancel();
  });

  async function visit(path: string): Promise<void> {
    watched = await desk.visit(path);
    ({ page } = watched);
    await page.addInitScript(CLOCK);
    await page.reload();
    await approve().waitFor();
  }

  const approve = (): Locator => page.getByRole('button', { name: 'Approve', exact: true });
  const asked = (words: string): Locator => page.locator('.asked strong', { hasText: words });

  const decisions = async (): Promise<object[]> =>
    (await store.read(run.id)).flatMap(({ event }) =>
      event.type === 'approval.decided' ? [{ callId: event.callId, by: event.by, ...event.decision }] : [],
    );
  /** What was decided, after a request that the page sent later was answered. */
  async function settledDecisions(): Promise<object[]> {
    await page.evaluate(`fetch('/healthz').then(answer => answer.text())`);
    return await decisions();
  }
  /** A key as a keyboard sends it while it is held. */
  async function hold(key: string, repeats = 20): Promise<void> {
    for (let count = 0; count <= repeats; count += 1) await page.keyboard.down(key);
    await page.keyboard.up(key);
  }
  const wait = (ms: number) => page.evaluate(`now += ${ms}`);

  test.each(
    sampled<[string, () => string]>(
      [
        ['the inbox', () => '/inbox'],
        ['the run', () => `/runs/${run.id}`],
      ],
      1,
    ),
  )('held keys and double clicks decide none of six refunds in %s', async (_, path) => {
    await visit(path());
    await approve().focus();
    for (const key of ['a', 'Enter', ' ']) {
      await hold(key);
      await wait(700);
      await page.keyboard.press('Escape');
    }
    await approve().dblclick();
    await asked('Approve refund of $42.00 for B-1?').waitFor();
    expect(await settledDecisions()).toEqual([]);
    await wait(599);
    await approve().click();
    expect(await settledDecisions(), 'a press that comes too soon').toEqual([]);
    await asked('B-1').waitFor();
    await wait(600);
    await approve().dblclick();
    await expect.poll(decisions).toHaveLength(1);
    await page.getByText('B-2').first().waitFor();
    await expect.poll(() => asked('').count(), { message: 'the next decision is not asked' }).toBe(0);
    expect(await settledDecisions()).toHaveLength(1);
  });

  test('a press asks in words and Enter sends one decision, however long it is held, with the name that was asked once', async () => {
    await visit('/inbox');
    await page.keyboard.press('a');
    await asked('Approve refund of $42.00 for B-1?').waitFor();
    expect(await watched.findBarriers()).toEqual([]);
    await page.getByLabel('Decided by').fill('Grace');
    await hold('Enter');
    await expect.poll(decisions).toEqual([{ callId: 'call_0_0', by: 'Grace', type: 'approve' }]);
    await page.getByText('Approved: refund.').waitFor();
    await page.reload();
    await approve().waitFor();
    await page.keyboard.press('a');
    await asked('Approve refund of $42.00 for B-2?').waitFor();
    await expect.poll(() => page.getByLabel('Decided by').count()).toBe(0);
    await hold('Enter');
    await expect.poll(decisions).toHaveLength(2);
    expect(await settledDecisions()).toMatchObject([{ by: 'Grace' }, { by: 'Grace' }]);
  });

  inAll('Escape, another decision, other inputs and another decider end what a press has asked', async () => {
    await visit('/inbox');
    const isOver = async (): Promise<void> => {
      await expect.poll(() => asked('').count()).toBe(0);
      await page.keyboard.press('Enter');
      expect(await settledDecisions()).toEqual([]);
    };
    await page.keyboard.press('a');
    await asked('B-1').waitFor();
    await page.keyboard.press('Escape');
    await isOver();

    await page.keyboard.press('a');
    await page.keyboard.press('j');
    await isOver();
    await approve().click();
    await asked('B-2').waitFor();

    await page.keyboard.press('r');
    await page.getByLabel('Reason').fill('Too much.');
    await page.keyboard.press('Enter');
    await asked('Reject refund of $42.00 for B-2?').waitFor();
    await page.keyboard.type(' Really');
    await expect.poll(() => asked('').count()).toBe(0);
    await page.keyboard.press('Enter');
    await asked('Reject refund').waitFor();
    await wait(600);
    await page.getByLabel('Reason').press('Control+Enter');
    await expect.poll(decisions).toMatchObject([{ callId: 'call_0_1', reason: 'Too much. Really' }]);

    await page.getByText('B-3').first().waitFor();
    await approve().click();
    await asked('B-3').waitFor();
    await run.approve('call_0_2', { by: 'Ada' });
    await page.getByText('B-4').first().waitFor();
    await expect.poll(() => asked('').count()).toBe(0);
    await wait(600);
    await approve().click();
    await asked('B-4').waitFor();
    expect(await settledDecisions()).toHaveLength(2);
  });

  inAll('what was typed is kept when another person decides first, with who decided what', async () => {
    for (const path of ['/inbox', `/runs/${run.id}`]) {
      await visit(path);
      const [callId, order] = path === '/inbox' ? ['call_0_0', 'B-1'] : ['call_0_1', 'B-2'];
      await page.getByRole('button', { name: 'Reject…' }).click();
      await page.getByLabel('Reason').fill('The parcel is empty.');
      await run.reject(callId, { by: 'Ada', reason: 'Too late.' });
      const note = page.locator('.overtaken');
      await note.getByText(`Ada rejected refund of $42.00 for ${order}: Too late.`).waitFor();
      await page.getByText('The parcel is empty.').waitFor();
      expect(await watched.findBarriers()).toEqual([]);
      await page.getByRole('button', { name: 'Dismiss' }).click();
      await expect.poll(() => page.getByText('The parcel is empty.').count()).toBe(0);
      if (path === '/inbox') await page.context().close();
    }
  });

  inAll('while an edit is open, its changes are approved or discarded, and nothing else', async () => {
    await visit('/inbox');
    await page.keyboard.press('e');
    const json = page.getByRole('tab', { name: 'JSON' });
    const edited = page.getByLabel('Edited input');
    await json.click();
    await edited.fill('{ "orderId": "B-1", "cents": 1999 }');
    const ways = async (): Promise<string[]> =>
      await page.locator('.decision footer').getByRole('button').allInnerTexts();
    expect(await ways()).toEqual(['Approve with changes', 'Discard']);
    await page.reload();
    await json.click();
    await edited.waitFor();
    expect(await ways(), 'after a reload').toEqual(['Approve with changes', 'Discard']);
    await page.locator('h1').focus();
    await page.keyboard.press('a');
    await expect.poll(() => asked('').count()).toBe(0);
    await edited.press('Control+Enter');
    await asked('Approve refund of $19.99 for B-1, with changes?').waitFor();
    expect(await settledDecisions()).toEqual([]);
    await page.keyboard.press('Escape');
    await expect.poll(() => asked('').count()).toBe(0);
    await edited.press('Escape');
    await page.getByText('Discard what you typed?').waitFor();
    await expect.poll(() => edited.inputValue()).toContain('1999');
    await page.keyboard.press('Enter');
    await approve().waitFor();
    await page.keyboard.press('e');
    await json.click();
    await expect.poll(() => edited.inputValue()).toContain('4200');
    await edited.press('Escape');
    await approve().waitFor();

    await page.keyboard.press('e');
    await json.click();
    await edited.fill('{ "orderId": "B-1", "cents": 1999 }');
    await edited.press('Control+Enter');
    await wait(600);
    await edited.press('Control+Enter');
    await expect.poll(decisions).toMatchObject([{ type: 'approve', input: { cents: 1999 } }]);
  });
});
