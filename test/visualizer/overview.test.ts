import { describe, expect, test } from 'vitest';
import { CHROMIUM } from '../support/visualizer/browser.ts';
import { makeDemoAgents } from '../support/visualizer/demo-agents.ts';
import { servePages } from '../support/visualizer/visits.ts';

describe.skipIf(CHROMIUM === undefined)('the overview', () => {
  const desk = servePages(() => makeDemoAgents().agents);

  test('says what needs someone, the longest wait first, and the bar and the tab count it on every view', async () => {
    const first = await desk.startAtRest('refunds', 'Pay Ada back.');
    await desk.startAtRest('lab', 'How wide is it?');
    await desk.startAtRest('releases', 'Release 2.4.0.');
    const watched = await desk.visit('/');
    const { page } = watched;
    const waiting = page.getByRole('region', { name: 'Waiting' });
    await waiting.getByRole('link', { name: '3', exact: true }).waitFor();
    await expect.poll(() => waiting.getByRole('listitem').first().innerText()).toContain('Pay Ada back.');
    const doubts = page.getByRole('region', { name: 'In doubt' });
    await doubts.getByText('deploy').waitFor();
    expect(await page.title()).toBe('(3) Overview · Agentchart');
    for (const path of ['/runs', '/inbox', '/agents', `/runs/${first.id}`]) {
      await page.goto(`${desk.url}${path}`);
      await page.getByRole('link', { name: 'Inbox 3', exact: true }).waitFor();
      await expect.poll(() => page.title()).toMatch(/^\(3\) /);
    }
    await first.reject('call_1_0', { reason: 'Too much.' });
    await first.settled();
    await page.getByRole('link', { name: 'Inbox 2', exact: true }).waitFor();
    expect(watched.problems).toEqual([]);
  });

  test('the bars have their times and the largest value; a pointer and the keys read each of them', async () => {
    await desk.startAtRest('refunds', 'Pay Ada back.');
    const { page } = await desk.visit('/');
    const runs = page.locator('[aria-label="Runs"] .over-time');
    await expect.poll(() => runs.innerText()).toMatch(/^1\s+\d\d-\d\d \d\d:\d\d\s+now$/);
    const range = page.getByRole('slider', { name: 'Runs over time' });
    await range.focus();
    await expect.poll(() => range.getAttribute('aria-valuetext')).toMatch(/: 1$/);
    await range.press('ArrowLeft');
    await expect.poll(() => range.getAttribute('aria-valuetext')).toMatch(/: 0$/);
    await expect.poll(() => page.locator('.over-time .shown').count()).toBe(5);
    const { width = 0 } = (await runs.boundingBox()) ?? {};
    await runs.hover({ position: { x: width - 2, y: 30 } });
    await expect.poll(() => runs.locator('strong').innerText()).toBe('1');
    await page.mouse.move(0, 0);
    await expect.poll(() => runs.innerText()).toContain('now');
  });
});
