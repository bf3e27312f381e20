import type { Page } from 'playwright-core';
import { afterAll, describe, expect, test } from 'vitest';
import { TAKES_ALL } from '../support/sample.ts';
import { serveAllViews, type View } from '../support/visualizer/all-views.ts';
import { CHROMIUM, closePages, sharedChromium, WatchedPage } from '../support/visualizer/browser.ts';

/** The last is a window of 1280 by 900 px at 200 % zoom. */
const SIZES = [
  { width: 390, height: 844 },
  { width: 360, height: 740 },
  { width: 768, height: 1024 },
  { width: 1440, height: 900 },
  { width: 640, height: 450 },
].slice(0, TAKES_ALL ? 5 : 1);

/** The elements that the window cuts off, or a box that neither scrolls nor shows that it cuts. */
const FIND_CUT = `[...document.querySelectorAll('body *:not(svg *)')].flatMap(one => {
  const { left, right, width } = one.getBoundingClientRect();
  if (width < 2 || (left > -1 && right < innerWidth + 1) || !one.checkVisibility()) return [];
  for (let box = one.parentElement; box !== null; box = box.parentElement) {
    const { overflowX, textOverflow } = getComputedStyle(box);
    if (overflowX !== 'visible' && (overflowX !== 'hidden' || textOverflow === 'ellipsis')) return [];
  }
  return [Math.round(left) + ' to ' + Math.round(right) + ' px: ' + one.outerHTML.slice(0, 100)];
})`;

/** A browser on a busy machine may owe its frames for long, and what is measured below needs none. */
const DRAWN = `Promise.race([
  new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))),
  new Promise(done => setTimeout(done, 2000)),
])`;

const isExpected = (problem: string) => /^request to|status of (401|404 .*run_none)/.test(problem);

const served = CHROMIUM === undefined ? undefined : await serveAllViews();

// A test for each view, so that one that stops is named.
describe.runIf(served)('in every size and both colour schemes, without barriers and problems', () => {
  afterAll(async () => {
    await closePages(await sharedChromium());
    await served?.close();
  });

  async function findFaults(
    { page, watched }: { page: Page; watched: WatchedPage },
    { shows, open }: View,
    { width, height }: (typeof SIZES)[number],
  ): Promise<string[]> {
    await page.setViewportSize({ width, height });
    await page.emulateMedia({ colorScheme: 'dark' });
    await page.evaluate(DRAWN);
    const shown = page.locator(shows).filter({ visible: true }).first();
    // What was opened may close where the panes are others.
    if (!(await shown.isVisible())) await open?.(page);
    await shown.waitFor();
    const wide: number = await page.evaluate('document.documentElement.scrollWidth');
    const found: string[] = wide > width ? [`scrolls to ${wide} px`] : [];
    found.push(...(await page.evaluate<string[]>(FIND_CUT)), ...(await watched.findBarriers()));
    if (TAKES_ALL) {
      await page.emulateMedia({ colorScheme: 'light' });
      // Nothing else depends on the colours.
      found.push(...(await watched.findBarriers('color-contrast')));
    }
    return found.map(line => `${width} px: ${line}`);
  }

  test.each(served?.views ?? [])('$name', { timeout: 120_000 }, async view => {
    const watched = await WatchedPage.open(await sharedChromium(), 'about:blank', SIZES[0]);
    const { page, problems } = watched;
    await page.goto(view.url);
    await view.open?.(page);
    await page.locator(view.shows).filter({ visible: true }).first().waitFor();
    const faults: string[] = [];
    for (const size of SIZES) faults.push(...(await findFaults({ page, watched }, view, size)));
    faults.push(...problems.filter(problem => !isExpected(problem)));
    expect(faults).toEqual([]);
    await watched.close();
  });
});
