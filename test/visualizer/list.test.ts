import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { memory, type Store } from '../../agent/index.ts';
import { sampled } from '../support/sample.ts';
import { CHROMIUM } from '../support/visualizer/browser.ts';
import { makeDemoAgents } from '../support/visualizer/demo-agents.ts';
import { plantRun, plantRuns } from '../support/visualizer/many-runs.ts';
import { servePages } from '../support/visualizer/visits.ts';

describe.skipIf(CHROMIUM === undefined)('the list of runs', () => {
  let store: Store;
  const desk = servePages(() => {
    store = memory();
    return makeDemoAgents(store).agents;
  });

  const rowsOf = (page: Page) => page.getByRole('table', { name: 'Runs' }).locator('.rows').getByRole('row');

  /** The titles in sight, from above. */
  async function titles(page: Page): Promise<string[]> {
    return await page.evaluate(
      `[...document.querySelectorAll('.rows .open')]
        .map(link => [link.getBoundingClientRect().top, link.textContent])
        .sort((one, other) => one[0] - other[0]).map(([, title]) => title)`,
    );
  }

  async function plantThree(): Promise<void> {
    const at = Date.now() - 60_000;
    const labels = { team: 'north', tier: 'gold' };
    await plantRun(store, 'run_a', {
      title: 'Alpha',
      agent: 'refunds',
      cost: 0.2,
      tokens: 9,
      at,
      labels,
    });
    await plantRun(store, 'run_b', {
      title: 'Beta',
      cost: 0.9,
      tokens: 100,
      at: at + 1,
      model: 'x:one',
    });
    await plantRun(store, 'run_c', {
      title: 'Gamma',
      status: 'failed',
      errorCode: 'rate-limit',
      cost: 0.5,
      at: at + 2,
      labels: { team: 'south' },
    });
  }

  test('takes the full width, and has the columns that a person chooses or the address names', async () => {
    await plantThree();
    const watched = await desk.visit('/runs', { width: 1920, height: 1080 });
    const { page } = watched;
    const heads = () => page.getByRole('columnheader').allInnerTexts();
    const atFirst = [
      'Choose',
      'Status',
      'Title',
      'Labels',
      'Agent',
      'Why',
      'At work',
      'Cost',
      'Tokens',
      'Changed',
    ];
    await expect.poll(heads).toEqual(atFirst);
    const table = await page.getByRole('table', { name: 'Runs' }).boundingBox();
    expect(table?.width).toBeGreaterThan(1_860);
    expect(await page.locator('.notice').isVisible(), 'nothing was done that needs a notice').toBe(false);
    await page.getByText('Columns', { exact: true }).click();
    await page.getByLabel('Agent', { exact: true }).uncheck();
    await page.getByLabel('Model').check();
    const chosen = atFirst.toSpliced(4, 1, 'Model');
    await expect.poll(heads).toEqual(chosen);
    await page.keyboard.press('Escape');
    await expect.poll(() => page.getByLabel('Model').isVisible()).toBe(false);
    await page.reload();
    await expect.poll(heads).toEqual(chosen);
    await page.goto(`${desk.url}/runs?columns=status,cost`);
    await expect.poll(heads).toEqual(['Choose', 'Status', 'Title', 'Cost']);
    await page.getByText('Columns', { exact: true }).click();
    await page.getByRole('button', { name: 'Reset columns' }).click();
    await expect.poll(heads).toEqual(atFirst);
    expect(watched.problems).toEqual([]);
  });

  test('sorts by a head, which says so, and again in the other order', async () => {
    await plantThree();
    await desk.startAtRest('refunds', 'Pay Ada back.');
    const watched = await desk.visit('/runs');
    const { page } = watched;
    await expect.poll(() => titles(page)).toEqual(['Pay Ada back.', 'Gamma', 'Beta', 'Alpha']);
    const cost = page.getByRole('columnheader', { name: 'Cost' });
    await cost.getByRole('button').click();
    await expect.poll(() => titles(page)).toEqual(['Beta', 'Gamma', 'Alpha', 'Pay Ada back.']);
    await expect.poll(() => cost.getAttribute('aria-sort')).toBe('descending');
    expect(new URL(page.url()).search).toBe('?sort=cost&order=desc');
    await cost.getByRole('button').click();
    await expect.poll(() => titles(page)).toEqual(['Pay Ada back.', 'Alpha', 'Gamma', 'Beta']);
    await expect.poll(() => cost.getAttribute('aria-sort')).toBe('ascending');
    await page.getByRole('columnheader', { name: 'Title' }).getByRole('button').press('Enter');
    await expect.poll(() => titles(page)).toEqual(['Alpha', 'Beta', 'Gamma', 'Pay Ada back.']);
    expect(watched.problems).toEqual([]);
  });

  test('counts each status, shows doubts in their own colour, and adds the chosen runs up', async () => {
    await plantThree();
    await desk.startAtRest('refunds', 'Pay Ada back.');
    await desk.startAtRest('releases', 'Release 2.4.0.');
    const watched = await desk.visit('/runs');
    const { page } = watched;
    const chips = page.getByRole('group', { name: 'Status' }).getByRole('button');
    const counted = [
      'all 5',
      'waiting 2',
      'in doubt 1',
      'running 0',
      'finished 2',
      'failed 1',
      'cancelled 0',
    ];
    await expect.poll(() => chips.allInnerTexts()).toEqual(counted);
    const totals = page.locator('.totals');
    await expect.poll(() => totals.innerText()).toMatch(/^5 runs · [\d,]+ tokens · \$1\.60/);
    const colour = (of: string, what: string) =>
      page.evaluate(
        `getComputedStyle(document.querySelector(${JSON.stringify(of)}))[${JSON.stringify(what)}]`,
      );
    const doubt = await colour('.rows .is-in-doubt', 'color');
    expect(doubt).toBe('rgb(124, 58, 173)');
    expect(doubt).not.toBe(await colour('.rows .is-waiting', 'color'));
    await chips.getByText('in doubt').click();
    await expect.poll(() => titles(page)).toEqual(['Release 2.4.0.']);
    expect(new URL(page.url()).search).toBe('?status=in+doubt');
    await chips.getByText('failed').click();
    await expect.poll(() => titles(page)).toEqual(['Gamma']);
    await expect.poll(() => totals.innerText()).toBe('1 run · 20 tokens · $0.5000 · 300 ms at work');
    expect(watched.problems).toEqual([]);
  });

  test('shows labels as chips, and a press on one chooses by it', async () => {
    await plantThree();
    const watched = await desk.visit('/runs', { width: 1440, height: 900 });
    const { page } = watched;
    await page.getByRole('link', { name: 'team=north' }).click();
    await expect.poll(() => titles(page)).toEqual(['Alpha']);
    expect(new URL(page.url()).searchParams.getAll('label')).toEqual(['team=north']);
    await page.getByRole('link', { name: 'Not only runs with team=north' }).click();
    await expect.poll(() => titles(page)).toEqual(['Gamma', 'Beta', 'Alpha']);
    await page.getByLabel('Label', { exact: true }).fill('team=south');
    await page.keyboard.press('Enter');
    await expect.poll(() => titles(page)).toEqual(['Gamma']);
    expect(watched.problems).toEqual([]);
  });

  test('is saved under a name, with its filter, order and columns in the address', async () => {
    await plantThree();
    const watched = await desk.visit('/runs?status=failed&sort=cost');
    const { page } = watched;
    await expect.poll(() => titles(page)).toEqual(['Gamma']);
    await page.getByText('Columns', { exact: true }).click();
    await page.getByLabel('Tokens').uncheck();
    await page.getByText('Views', { exact: true }).click();
    await page.getByLabel('Name of this view').fill('Broken');
    await page.getByRole('button', { name: 'Save view' }).click();
    await page.goto(`${desk.url}/runs`);
    await expect.poll(() => titles(page)).toEqual(['Gamma', 'Beta', 'Alpha']);
    await page.getByText('Views', { exact: true }).click();
    await page.getByRole('link', { name: 'Broken' }).click();
    await expect.poll(() => titles(page)).toEqual(['Gamma']);
    const { searchParams } = new URL(page.url());
    expect([searchParams.get('status'), searchParams.get('sort')]).toEqual(['failed', 'cost']);
    expect(searchParams.get('columns')).not.toContain('tokens');
    await page.getByText('Views', { exact: true }).click();
    await page.getByRole('button', { name: 'Remove Broken' }).click();
    await expect.poll(() => page.getByRole('link', { name: 'Broken' }).count()).toBe(0);
    expect(watched.problems).toEqual([]);
  });

  test('a slash focuses the search, also from the overview, and j, k and x move and choose', async () => {
    await plantThree();
    const watched = await desk.visit('/');
    const { page } = watched;
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await page.keyboard.press('/');
    await page.getByLabel('Search').waitFor();
    const focused = () => page.evaluate(`document.activeElement.name || document.activeElement.textContent`);
    await expect.poll(focused).toBe('text');
    await page.keyboard.type('BET');
    await expect.poll(() => titles(page)).toEqual(['Beta']);
    await page.getByLabel('Search').fill('');
    await expect.poll(() => titles(page)).toEqual(['Gamma', 'Beta', 'Alpha']);
    await page.getByRole('heading', { name: 'Runs' }).focus();
    await page.keyboard.press('j');
    await expect.poll(focused).toBe('Gamma');
    await page.keyboard.press('j');
    await expect.poll(focused).toBe('Beta');
    await page.keyboard.press('k');
    await page.keyboard.press('x');
    await page.getByText('1 run chosen').waitFor();
    await page.keyboard.press('/');
    await expect.poll(focused).toBe('text');
    expect(watched.problems).toEqual([]);
  });

  test('of many runs reads what is in sight, to the last, and keeps its place when others come', async () => {
    const count = 2_000;
    await plantRuns(store, count);
    const watched = await desk.visit('/agents');
    const { page } = watched;
    const asked: string[] = [];
    page.on('request', request => {
      const { pathname, searchParams } = new URL(request.url());
      if (pathname === '/runs' && request.resourceType() === 'fetch')
        asked.push(searchParams.get('skip') ?? '');
    });
    await page.getByRole('link', { name: 'Runs' }).click();
    await page.getByText('Measure area 0', { exact: true }).waitFor();
    expect(asked, 'one page of those that wait, and one of the others').toEqual(['0', '0']);
    await page.getByRole('button', { name: 'all 2,000' }).waitFor();
    expect(await page.evaluate('document.documentElement.scrollHeight')).toBeGreaterThan(count * 36);
    await page.evaluate('scrollTo(0, document.documentElement.scrollHeight)');
    await page.getByText('Measure area 1999', { exact: true }).waitFor();
    expect(asked.length).toBeLessThan(6);
    await expect.poll(() => rowsOf(page).count()).toBeLessThan(80);
    await page.evaluate('scrollTo(0, 1_000 * 36)');
    await page.getByText('Measure area 1000', { exact: true }).waitFor();
    const top = async () => (await page.getByText('Measure area 1000', { exact: true }).boundingBox())?.y;
    const before = await top();
    await desk.startAtRest('lab', 'How wide is it?');
    await page.getByRole('button', { name: 'waiting 1' }).waitFor();
    await expect.poll(top).toBe(before);
    expect(watched.problems).toEqual([]);
  });

  test('begins a run in a dialog, for the agent of the filter', async () => {
    const watched = await desk.visit('/runs?agent=lab');
    const { page } = watched;
    await page.getByText('No runs match.').waitFor();
    await page.getByRole('button', { name: 'New run' }).click();
    const dialog = page.getByRole('dialog', { name: 'New run' });
    await expect.poll(() => dialog.getByLabel('Agent').inputValue()).toBe('lab');
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'New run' }).click();
    await dialog.getByLabel('Input').fill('How wide is it?');
    await dialog.getByRole('button', { name: 'Start' }).click();
    await page.locator('#state-resting-awaitingResults.current').waitFor();
    expect(watched.problems).toEqual([]);
  });

  test.each(sampled([360, 390, 768], 1))(
    'at %d px its rows are cards of two lines, and nothing is wider than the window',
    async width => {
      await plantThree();
      await desk.startAtRest('refunds', `Pay Ada back. ${'Twice and again. '.repeat(20)}`);
      const watched = await desk.visit('/runs', { width, height: 740 });
      const { page } = watched;
      await page.getByRole('button', { name: 'waiting 1' }).waitFor();
      const row = rowsOf(page).first();
      const [title, status] = [row.locator('.open'), row.locator('.status')];
      const [upper, lower] = [await title.boundingBox(), await status.boundingBox()];
      expect(lower?.y).toBeGreaterThan((upper?.y ?? 0) + (upper?.height ?? 0) - 4);
      expect((await row.boundingBox())?.height).toBe(64);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
      expect(watched.problems).toEqual([]);
    },
  );

  test('at 200 % zoom all above the rows gives way to them', async () => {
    await plantRuns(store, 60);
    const { page } = await desk.visit('/runs', { width: 720, height: 450 });
    await page.getByText('Measure area 0', { exact: true }).waitFor();
    await page.evaluate('scrollTo(0, 800)');
    await page.getByText('Measure area 14', { exact: true }).waitFor();
    const above = `document.elementFromPoint(360, 4).closest('.rows') !== null`;
    expect(await page.evaluate(above)).toBe(true);
  });
});
