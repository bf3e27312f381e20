import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { memory } from '../../agent/index.ts';
import { TimeLine } from '../../visualizer/page/model/time-line.ts';
import { searchEntry } from '../../visualizer/page/run/finding/search-entry.ts';
import { inAll } from '../support/sample.ts';
import { CHROMIUM } from '../support/visualizer/browser.ts';
import { finishErring, makeErringAgent } from '../support/visualizer/erring-agent.ts';
import { makeSurvey } from '../support/visualizer/long-run.ts';
import { servePages } from '../support/visualizer/visits.ts';

test('what a fork copied takes a small part of the strip, however long it took', () => {
  const activities = [0, 60_000, 3_600_000, 3_600_100, 3_600_200].map((at, index) => ({
    seq: index + 1,
    at,
    kind: 'model' as const,
  }));
  const line = new TimeLine(activities, 3);
  const [copied, own] = line.spans;
  expect(copied).toMatchObject({ kind: 'copied', from: 0 });
  expect(copied?.to).toBeLessThan(0.1);
  expect(own).toMatchObject({ kind: 'model', to: 1 });
  expect(line.placeOf(4)).toBe(copied?.to);
  expect(new TimeLine(activities).spans).toMatchObject([{ kind: 'model', from: 0, to: 1 }]);
});

test('an entry is found by its type, its call, its texts and numbers, and not by what people do not read', () => {
  const event = {
    type: 'tool.settled',
    seq: 7,
    at: 77,
    callId: 'call_0_0',
    isError: true,
    output: { error: ['The card was DECLINED'], cents: 4200 },
    digest: 'abcdef',
  } as never;
  const found = (text: string) => searchEntry(event, text, () => 'charge');
  expect(['settled', 'declined', '4200', 'charge'].map(found)).toEqual([true, true, true, true]);
  expect(['77', 'abcdef', 'refund'].map(found)).toEqual([false, false, false]);
});

describe.skipIf(CHROMIUM === undefined)('in a run', () => {
  const store = memory();
  const agent = makeErringAgent(store);
  const survey = makeSurvey(store, 10_000);
  const desk = servePages([agent, survey]);
  let runId: string;
  let errors: number[];
  beforeAll(async () => {
    ({ runId, errors } = await finishErring(agent));
  });

  async function visit(path: string): Promise<Page> {
    const { page } = await desk.visit(path);
    await page.getByRole('complementary', { name: 'Inspector' }).getByRole('heading', { level: 2 }).waitFor();
    return page;
  }

  const cursorOf = async (page: Page) =>
    Number(await page.getByRole('slider', { name: 'Entry' }).getAttribute('aria-valuenow'));
  /** How many ticks of a kind the strip has. */
  const ticks = async (page: Page, kind: string) =>
    ((await page.locator(`.strip .ticks.${kind}`).getAttribute('d')) ?? '').split('M').length - 1;

  test('a slash searches journal and conversation: hits are on the strip, Enter goes along them, Escape clears', async () => {
    const page = await visit(`/runs/${runId}`);
    await page.keyboard.press('/');
    const field = page.getByRole('searchbox', { name: 'Find in this run' });
    await field.and(page.locator(':focus')).waitFor();
    await page.keyboard.type('DECLINED');
    await page.locator('.find output', { hasText: '1 entry' }).waitFor();
    expect(await ticks(page, 'hits')).toBe(1);
    await page.keyboard.press('Enter');
    await page.locator('.find output', { hasText: '1 of 1' }).waitFor();
    expect(await cursorOf(page)).toBe(errors[0]);
    await expect.poll(() => page.evaluate(`CSS.highlights.get('found')?.size > 0`)).toBe(true);
    await field.fill('ada lovelace');
    await page.locator('.find output', { hasText: '2 entries' }).waitFor();
    for (const [key, place] of [
      ['Enter', '1 of 2'],
      ['Enter', '2 of 2'],
      ['Shift+Enter', '1 of 2'],
    ] as const) {
      await page.keyboard.press(key);
      await page.locator('.find output', { hasText: place }).waitFor();
    }
    expect((await store.read(runId))[(await cursorOf(page)) - 1]?.event.type).toBe('tool.settled');
    await field.fill('nowhere to be found');
    await page.locator('.find output', { hasText: 'Nothing found' }).waitFor();
    await page.keyboard.press('Escape');
    await field.waitFor({ state: 'detached' });
    await expect.poll(() => page.locator('.ticks.hits').count()).toBe(0);
    // The page forgets them after it has drawn itself without the field.
    await expect.poll(() => page.evaluate(`CSS.highlights.has('found')`)).toBe(false);
  });

  test('n and N go to the next and the previous error, and errors are ticks in the colour of failures', async () => {
    const page = await visit(`/runs/${runId}?at=1`);
    expect(errors).toHaveLength(3);
    const reached: number[] = [];
    for (const key of ['n', 'n', 'n', 'n', 'Shift+N']) {
      await page.keyboard.press(key);
      reached.push(await cursorOf(page));
    }
    expect(reached).toEqual([...errors, errors[0], errors[2]]);
    expect(await ticks(page, 'errors')).toBe(3);
    const colors = await page.evaluate(`['.ticks.errors', '.error-block strong'].map(name => {
      const style = getComputedStyle(document.querySelector(name));
      return name.startsWith('.ticks') ? style.stroke : style.color;
    })`);
    expect(new Set(colors as string[]).size).toBe(1);
    await page.keyboard.press('?');
    await page.getByRole('dialog').getByText('next error').waitFor();
  });

  test('the journal shows one type of entry, which the address keeps', async () => {
    const page = await visit(`/runs/${runId}?tab=journal`);
    const types = page.getByLabel('Show');
    await expect.poll(() => types.locator('option').allInnerTexts()).toContain('turn.failed (1)');
    await types.selectOption('turn.failed');
    const entries = page.locator('.journal .entry');
    await expect.poll(() => entries.count()).toBe(1);
    expect(new URL(page.url()).searchParams.get('type')).toBe('turn.failed');
    await page.reload();
    await expect.poll(() => entries.allInnerTexts()).toMatchObject([expect.stringContaining('turn.failed')]);
    await types.selectOption('errors');
    await expect.poll(() => entries.count()).toBe(3);
    await entries.first().click();
    expect(await cursorOf(page)).toBe(errors[0]);
  });

  test('the block of an error forks before it, and the header exports the run as a test', async () => {
    const page = await visit(`/runs/${runId}`);
    const block = page.locator('.error-block', { hasText: 'charge failed' });
    await block.getByText('The model reads this error.').waitFor();
    const file = await page.getByRole('link', { name: 'Export as test' }).getAttribute('href');
    expect(file).toBe(`/runs/${runId}/export?as=test`);
    await block.getByRole('button', { name: 'Fork before this' }).click();
    const before = await cursorOf(page);
    expect((await store.read(runId))[before]?.event).toMatchObject({ type: 'tool.started' });
    await page.getByRole('region', { name: `Fork at entry ${before}` }).waitFor();
    await expect.poll(() => page.locator('.block.failure, .notice.fails').count()).toBe(0);
  });

  test('the strip of a fork begins at the fork; what came before is hatched and leads to its run', async () => {
    const at = (errors[0] ?? 0) - 2;
    const fork = await (await agent.open(runId)).fork({ at });
    await fork.settled();
    const page = await visit(`/runs/${fork.id}`);
    await page.getByText(`forked from ${runId} at entry ${at}`).waitFor();
    const hatched = await page.locator('.hatched').boundingBox();
    const track = await page.getByRole('slider', { name: 'Entry' }).boundingBox();
    expect(hatched?.x).toBe(track?.x);
    expect((hatched?.width ?? 0) / (track?.width ?? 1)).toBeLessThan(0.1);
    await page.getByRole('link', { name: runId }).click();
    await page.waitForURL(url => url.pathname === `/runs/${runId}`);
  });

  inAll('a search of 10,000 entries pauses between slices, so that the page can draw', async () => {
    const run = await survey.start('Measure');
    await run.settled();
    const page = await visit(`/runs/${run.id}`);
    await page.evaluate(`globalThis.pauses = 0;
      const begin = setTimeout;
      globalThis.setTimeout = (act, ms) => {
        if (ms === 0) pauses += 1;
        return begin(act, ms);
      }`);
    await page.keyboard.press('/');
    await page.keyboard.type('row 17 of');
    await page.locator('.find output', { hasText: '1 entry' }).waitFor();
    expect(await page.evaluate('pauses')).toBeGreaterThan(3);
  });
});
