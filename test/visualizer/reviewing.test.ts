import type { Locator, Page } from 'playwright-core';
import { afterEach, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { type Agent, createAgent, memory, type Run } from '../../agent/index.ts';
import { inAll } from '../support/sample.ts';
import { CHROMIUM, decideWith, type WatchedPage } from '../support/visualizer/browser.ts';
import { servePages } from '../support/visualizer/visits.ts';

/** The time that events have moves only when a test moves it. */
const CLOCK = `globalThis.now = 1; Object.defineProperty(Event.prototype, 'timeStamp', { get: () => now });`;

describe.skipIf(CHROMIUM === undefined)('an answer under review, on the page', () => {
  const store = memory();
  const guardrails = { answer: () => ({ type: 'ask' as const, reason: 'it names a price' }) };
  const sales = createAgent({
    name: 'sales',
    store,
    guardrails,
    model: scripted([{ text: 'It costs 5.' }, { text: 'It costs 50.' }]),
  });
  const offers = createAgent({
    name: 'offers',
    store,
    guardrails,
    output: z.object({ cents: z.int() }),
    model: scripted([{ text: '{"cents":5}' }]),
  });
  const desk = servePages([sales, offers]);
  let page: Page;
  let watched: WatchedPage;
  const runs: Run[] = [];
  afterEach(async () => {
    expect(watched.problems.filter(problem => !/422|400/.test(problem))).toEqual([]);
    // A page with a clock of its own is not used again.
    await page.context().close();
    await Promise.all(runs.splice(0).map(run => run.cancel()));
  });

  async function start(agent: Agent): Promise<Run> {
    const run = await agent.start('What does it cost?');
    runs.push(run);
    await run.settled();
    return run;
  }

  async function visit(path: string): Promise<void> {
    watched = await desk.visit(path);
    ({ page } = watched);
    await button('Approve').waitFor();
  }

  const button = (name: string): Locator => page.getByRole('button', { name, exact: true });
  const asked = (words: string): Locator => page.locator('.asked strong', { hasText: words });
  const decisions = async (run: Run): Promise<object[]> =>
    (await store.read(run.id)).flatMap(({ event }) =>
      event.type === 'review.decided' ? [event.decision] : [],
    );
  /** A key that is held, as a keyboard sends it that waits for a second before it repeats the key. */
  async function hold(key: string): Promise<void> {
    for (let count = 0; count < 20; count += 1) {
      await page.keyboard.down(key);
      await page.evaluate(`now += ${count === 0 ? 1_000 : 50}`);
    }
    await page.keyboard.up(key);
  }

  test('a held key approves nothing, and of two answers one once it was asked', async () => {
    const both = [await start(sales), await start(sales)];
    const decided = async () => (await Promise.all(both.map(decisions))).flat();
    await visit('/inbox');
    await page.addInitScript(CLOCK);
    await page.reload();
    for (const key of ['a', 'Enter', ' ']) {
      await button('Approve').focus();
      await hold(key);
      await page.evaluate(`fetch('/healthz').then(answer => answer.text())`);
      expect(await decided(), `after holding ${key}`).toEqual([]);
      await page.keyboard.press('Escape');
    }
    await page.keyboard.press('a');
    await asked('Give the answer (It costs 5.)?').waitFor();
    expect(await watched.findBarriers()).toEqual([]);
    await hold('Enter');
    await page.getByText('Approved: answer.').waitFor();
    await expect.poll(() => page.locator('.inbox-row').count()).toBe(1);
    await expect.poll(() => asked('').count(), { message: 'the next answer is not asked about' }).toBe(0);
    expect(await decided()).toEqual([{ type: 'approve' }]);
  });

  test('is sent back with a remark, and the next is changed, which the conversation shows', async () => {
    const run = await start(sales);
    await visit(`/runs/${run.id}`);
    await page.getByText('needs your review').first().waitFor();
    await page.getByText('it names a price').first().waitFor();
    await button('Send back…').click();
    await page.getByLabel('Remark').fill('Say it in full.');
    await decideWith(button('Send back'));
    await page.getByText('It costs 50.').first().waitFor();
    await button('Edit…').click();
    await page.getByLabel('Answer in its place').fill('It costs 500.');
    await decideWith(button('Give this answer'));
    await expect.poll(() => run.settled()).toMatchObject({ status: 'finished', text: 'It costs 500.' });
    await page.locator('.conversation').getByText('It costs 500.').first().waitFor();
    expect(await decisions(run)).toMatchObject([
      { type: 'reject', reason: 'Say it in full.' },
      { type: 'approve', text: 'It costs 500.' },
    ]);
  });

  inAll('with a schema is changed as JSON, and what does not follow it is refused', async () => {
    const run = await start(offers);
    await visit('/inbox');
    await page.keyboard.press('e');
    const field = page.getByLabel('Answer in its place (JSON)');
    expect(JSON.parse(await field.inputValue())).toEqual({ cents: 5 });
    await field.fill('{ "cents": "six" }');
    await decideWith(button('Give this answer'));
    await page.getByText('not valid').first().waitFor();
    await field.fill('{ "cents": 6 }');
    await decideWith(button('Give this answer'));
    await page.getByText('Approved: answer.').waitFor();
    expect(await run.settled()).toMatchObject({ status: 'finished', output: { cents: 6 } });
  });
});
