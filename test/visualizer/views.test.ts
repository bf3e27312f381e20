import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, tool } from '../../agent/index.ts';
import { formatDuration } from '../../protocol/listing/format-duration.ts';

import { inAll, sampled } from '../support/sample.ts';
import { makeTemporaryFolder } from '../support/temporary-folders.ts';
import { CHROMIUM, decideWith, type WatchedPage } from '../support/visualizer/browser.ts';
import { type DemoAgents, HOSTILE, makeDemoAgents } from '../support/visualizer/demo-agents.ts';
import { servePages } from '../support/visualizer/visits.ts';

describe.skipIf(CHROMIUM === undefined)('the views of all runs', () => {
  let demo: DemoAgents;
  const desk = servePages(() => {
    demo = makeDemoAgents();
    return demo.agents;
  });

  /** The role or the name of the element that has the focus. */
  const focused = ({ page }: WatchedPage): Promise<string> =>
    page.evaluate('document.activeElement.role ?? document.activeElement.tagName');

  inAll(
    'on a tablet, the input of a call in the decision bar and its buttons share the width, one above the other',
    async () => {
      const run = await desk.startAtRest('refunds', 'Pay Ada back.');
      const { page } = await desk.visit(`/runs/${run.id}`, { width: 768, height: 1024 });
      const input = await page.getByRole('region', { name: /^Input of refund/ }).boundingBox();
      expect(input?.width).toBeGreaterThan(600);
    },
  );

  test.each(sampled([900, 1280], 1))(
    'the names of the columns are above their columns, %d px wide',
    async width => {
      await desk.startAtRest('refunds', 'Pay Ada back.');
      const { page } = await desk.visit('/runs', { width, height: 800 });
      await page.getByText('Pay Ada back.').waitFor();
      const places: number[] = await page.evaluate(
        `[...document.querySelectorAll('.run-row .c-title, .run-row .c-why')].map(cell => Math.round(cell.getBoundingClientRect().x))`,
      );
      const [title = 0, reason = 0, ...cells] = places;
      expect(Math.abs(title - (cells[0] ?? 0))).toBeLessThan(2);
      expect(Math.abs(reason - (cells[1] ?? 0))).toBeLessThan(2);
    },
  );

  test('the inbox has every open decision, and a person decides them by keyboard', async () => {
    const refund = await desk.startAtRest('refunds', 'Pay Ada back.');
    const release = await desk.startAtRest('releases', 'Release 2.4.0.');
    await release.approve('call_0_0');
    await release.settled();
    const lab = await desk.startAtRest('lab', 'How wide is it?');
    const watched = await desk.visit('/inbox');
    const { page } = watched;
    const rows = page.getByRole('listbox', { name: 'Inbox' }).getByRole('option');
    await expect.poll(() => rows.count()).toBe(3);
    await expect.poll(() => page.title()).toBe('(3) Inbox · Agentchart');

    await page.getByRole('option', { name: /Release 2.4.0/ }).focus();
    await page.getByText('started the tool, attempt 1').waitFor();
    await page.getByText('in doubt: the connection was lost after the request was sent').waitFor();
    const below = `innerHeight - document.querySelector('.decision > footer').getBoundingClientRect().bottom`;
    expect(await page.evaluate(below)).toBe(0);
    await page.getByRole('button', { name: 'It happened…' }).click();
    await page.getByLabel('Its result').fill('{"deployed":true}');
    await decideWith(page.getByRole('button', { name: 'It happened', exact: true }));
    await expect.poll(() => rows.count()).toBe(2);
    expect((await release.settled()).status).toBe('finished');
    await expect.poll(() => focused(watched)).toBe('option');

    await page.getByRole('option', { name: /Pay Ada back/ }).focus();
    await page.keyboard.press('r');
    await page.getByLabel('Reason').fill('Too much.');
    await page.keyboard.press('Enter');
    await page.getByText('Reject refund of $42.00 for A-1001?').waitFor();
    await page.keyboard.press('Enter');
    await expect.poll(() => rows.count()).toBe(1);
    expect((await refund.settled()).status).toBe('finished');
    await expect.poll(() => focused(watched)).toBe('option');

    const [check, answer] = await Promise.all([
      page.getByText('This is an error').boundingBox(),
      page.getByRole('button', { name: 'Answer', exact: true }).boundingBox(),
    ]);
    const gap = (answer?.y ?? 0) - (check?.y ?? 0) - (check?.height ?? 0);
    expect(gap, 'the checkbox does not touch the button').toBeGreaterThanOrEqual(6);
    await page.getByLabel('Result for the model').fill('{"width":3}');
    await page.reload();
    await expect.poll(() => page.getByLabel('Result for the model').inputValue()).toBe('{"width":3}');
    await page.getByRole('region', { name: 'What came before' }).waitFor();
    await lab.answer('call_0_0', { output: { width: 4 } });
    await page.getByText('Nothing to decide.').waitFor();
    await page.getByText('Resolved elsewhere.').waitFor();
    expect(watched.problems).toEqual([]);
  });

  test('after a decision the focus is on the next open one, also when another person decides the next meanwhile', async () => {
    const [first, second, third] = [
      await desk.startAtRest('refunds', 'Pay Ada back.'),
      await desk.startAtRest('refunds', 'Pay Bob back.'),
      await desk.startAtRest('refunds', 'Pay Cleo back.'),
    ];
    const watched = await desk.visit('/inbox');
    const { page } = watched;
    await page.route(`**/runs/${third?.id}/approve`, async route => {
      await second?.approve('call_1_0');
      await second?.settled();
      await route.continue();
    });
    await page.getByRole('option', { name: /Pay Cleo back/ }).focus();
    await decideWith(page.getByRole('button', { name: 'Approve', exact: true }));
    const rows = page.getByRole('listbox', { name: 'Inbox' }).getByRole('option');
    await expect.poll(() => rows.count()).toBe(1);
    await expect.poll(() => focused(watched)).toBe('option');
    expect(await page.evaluate('document.activeElement.dataset.key')).toContain(first?.id);
  });

  test('the list finds runs by title, agent and state, shows why they wait, and cancels several at once', async () => {
    const first = await desk.startAtRest('refunds', 'Pay Ada back.');
    const second = await desk.startAtRest('refunds', 'Pay Bob back.');
    await desk.startAtRest('broken', 'Say hello.');
    const watched = await desk.visit('/runs');
    const { page } = watched;
    const rows = page.locator('.rows > .run-row:has(a)');
    await expect.poll(() => rows.count()).toBe(3);
    await expect.poll(() => rows.nth(0).innerText()).toContain('approve refund');
    await expect.poll(() => rows.nth(2).innerText()).toContain('authentication');
    await page.getByLabel('Search').fill('bob');
    await expect.poll(() => rows.count()).toBe(1);
    expect(new URL(page.url()).searchParams.get('text')).toBe('bob');
    await page.getByLabel('Search').fill('');
    await page.getByRole('button', { name: /^waiting/ }).click();
    await expect.poll(() => rows.count()).toBe(2);
    for (const name of ['Choose Pay Ada back.', 'Choose Pay Bob back.']) await page.getByLabel(name).check();
    await page.getByRole('link', { name: 'Compare' }).waitFor();
    await page.getByRole('button', { name: 'Cancel', exact: true }).click();
    await page.getByRole('button', { name: 'Really cancel them?' }).click();
    await page.getByText('2 runs cancelled.').waitFor();
    expect([(await first.settled()).status, (await second.settled()).status]).toEqual([
      'cancelled',
      'cancelled',
    ]);
    await page.getByText('No runs match.').waitFor();
    expect(watched.problems).toEqual([]);
  });

  inAll('two runs are compared up to their first difference', async () => {
    const run = await desk.startAtRest('refunds', 'Pay Ada back.');
    const fork = await run.fork({
      at: seqOf(await demo.store.read(run.id), 'turn.completed', 2),
    });
    await run.approve('call_1_0');
    await run.settled();
    await fork.reject('call_1_0', { reason: 'Too much.' });
    await fork.settled();
    const watched = await desk.visit(`/compare/${run.id}..${fork.id}`);
    const { page } = watched;
    await page.getByText('The first difference is at entry').waitFor();
    const row = page.locator('.aligned-row.is-first');
    await expect.poll(() => row.innerText()).toMatch(/approved[\s\S]*rejected/);
    await page.getByText(`fork of`).first().waitFor();
    await expect
      .poll(() => page.getByRole('row', { name: /^Turns/ }).innerText())
      .toMatch(/Turns\s+3\s+3\s+none/);
    const names = await page.getByRole('rowheader').allInnerTexts();
    expect(names).toContain('At work');
    expect(names, 'the model has no price').not.toContain('Cost');
    await page.goto(new URL(`/runs/${run.id}`, page.url()).href);
    const worked = formatDuration((await demo.store.get(run.id))?.activeMs ?? -1);
    await page.locator('header .facts', { hasText: ` ${worked} at work` }).waitFor();
    expect(watched.problems).toEqual([]);
  });

  test('two runs differ where they call with other inputs, and not by their models and token counts', async () => {
    const lookUp = async (name: string, orders: readonly string[]) => {
      const calls = orders.map(orderId => ({
        toolCalls: [{ name: 'lookup_order', arguments: { orderId } }],
      }));
      const usage = { inputTokens: name.length, outputTokens: 1 };
      const turns = [...calls, { text: 'Done.' }].map(turn => ({ ...turn, usage }));
      const lookup = tool({
        name: 'lookup_order',
        description: 'Looks an order up.',
        input: z.object({ orderId: z.string() }),
        run: () => 'found',
      });
      const options = { model: { ...scripted(turns), model: name }, tools: [lookup], store: demo.store };
      const run = await createAgent({ name: 'shop', ...options }).start('Look up.');
      await run.settled();
      return run.id;
    };
    const [one, equal, other] = [
      await lookUp('small', ['A-1', 'A-2']),
      await lookUp('larger', ['A-1', 'A-2']),
      await lookUp('larger', ['A-1', 'B-7']),
    ];
    const { page } = await desk.visit(`/compare/${one}..${equal}`);
    await page.getByText('Both runs did the same.').waitFor();
    await page.goto(`${desk.url}/compare/${one}..${other}`);
    const second = seqOf(await demo.store.read(one), 'turn.completed', 2);
    await page.getByText(`The first difference is at entry ${second}.`).waitFor();
    await expect.poll(() => page.locator('.aligned-row.is-changed').count()).toBe(1);
  });

  inAll('every view says that the server is lost, and no longer once it is back', async () => {
    const run = await desk.startAtRest('refunds', 'Pay Ada back.');
    const paths = [
      '/',
      '/runs',
      '/inbox',
      '/agents',
      '/agents/refunds',
      `/runs/${run.id}`,
      `/compare/${run.id}..${run.id}`,
    ];
    const views = await Promise.all(paths.map(path => desk.visit(path)));
    const pages = views.map(({ page }) => page);
    for (const page of pages) await page.locator('h1').first().waitFor();
    const { port } = desk;
    await desk.stop();
    for (const page of pages) await page.evaluate(`dispatchEvent(new Event('offline'))`);
    const lost = (page: Page) => page.getByText('The server has not answered since');
    for (const page of pages) await lost(page).waitFor();
    expect(await views[1]?.findBarriers()).toEqual([]);
    await desk.serve(makeDemoAgents(demo.store, demo.gate).agents, { port });
    for (const page of pages) await lost(page).waitFor({ state: 'detached' });
  });

  inAll('a run is shared as one file, which plays offline and shows no contents', async () => {
    const run = await desk.startAtRest('refunds', 'Pay Ada back.');
    const watched = await desk.visit(`/runs/${run.id}`);
    const { page } = watched;
    const downloading = page.waitForEvent('download');
    await page.getByRole('link', { name: 'Share' }).click();
    const file = join(makeTemporaryFolder('share'), 'run.html');
    await (await downloading).saveAs(file);
    expect(readFileSync(file, 'utf8')).not.toContain('Pay Ada back.');
    const offline = await (await desk.browser.newContext({ offline: true })).newPage();
    await offline.goto(`file://${file}`);
    await offline.getByRole('slider', { name: 'Entry' }).waitFor();
    await offline.getByText('lookup_order').first().waitFor();
    await expect.poll(() => offline.getByRole('button', { name: 'Approve' }).count()).toBe(0);
    await offline.context().close();
    expect(watched.problems).toEqual([]);
  });

  inAll('an agent shows its tools with their side effects and gates', async () => {
    const watched = await desk.visit('/agents');
    const { page } = watched;
    await page.getByRole('link', { name: 'refunds' }).click();
    const card = page.getByRole('listitem').filter({ hasText: 'Pays money back.' });
    await card.getByText('must not run twice').waitFor();
    await expect.poll(() => card.innerText()).toContain('approval depends on the call');
    await card.getByText('Input schema').click();
    await card.getByText('"orderId"').waitFor();
    expect(watched.problems).toEqual([]);
  });

  test('hostile texts stay texts, in every view', async () => {
    const reader = await desk.startAtRest('reader', `${HOSTILE.markup} ${HOSTILE.order} ${HOSTILE.ansi}`);
    await desk.startAtRest('lab', HOSTILE.markup);
    for (const path of ['/', '/runs', '/inbox', `/compare/${reader.id}..${reader.id}`]) {
      const watched = await desk.visit(path, { width: 390 });
      await watched.page.getByText('<img src=').first().waitFor();
      expect(await watched.page.evaluate('window.owned ?? document.title')).not.toBe('owned');
      await expect.poll(() => watched.page.locator('img').count()).toBe(0);
      expect(await watched.page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
      expect(watched.problems).toEqual([]);
      await watched.close();
    }
  });
});

function seqOf(
  entries: readonly { seq: number; event: { type: string } }[],
  type: string,
  count: number,
): number {
  return entries.filter(({ event }) => event.type === type)[count - 1]?.seq ?? 0;
}
