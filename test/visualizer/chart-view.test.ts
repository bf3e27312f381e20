import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { inAll } from '../support/sample.ts';
import { CHROMIUM, type Look, type WatchedPage } from '../support/visualizer/browser.ts';
import { makeDemoAgents } from '../support/visualizer/demo-agents.ts';
import { servePages } from '../support/visualizer/visits.ts';

type View = { x: number; y: number; width: number; height: number };

async function viewOf(page: Page): Promise<View> {
  const text = await page.locator('.drawing svg').getAttribute('viewBox');
  const [x = 0, y = 0, width = 0, height = 0] = (text ?? '').split(' ').map(Number);
  return { x, y, width, height };
}

/** Two fingers that move apart, around the middle of the drawing, by pointer events as a touch screen sends them. */
const SPREAD = `(() => {
  const box = document.querySelector('.drawing');
  const { left, top, width, height } = box.getBoundingClientRect();
  const touch = (type, pointerId, by) => box.dispatchEvent(new PointerEvent(type, {
    pointerId, pointerType: 'touch', bubbles: true, clientX: left + width / 2 + by, clientY: top + height / 2,
  }));
  box.setPointerCapture = () => {};
  touch('pointerdown', 1, -20);
  touch('pointerdown', 2, 20);
  touch('pointermove', 1, -40);
  touch('pointermove', 2, 40);
  touch('pointerup', 1, -40);
  touch('pointerup', 2, 40);
})()`;

describe.skipIf(CHROMIUM === undefined)('the chart of a run', () => {
  const desk = servePages(makeDemoAgents().agents);
  let path: string;
  beforeAll(async () => {
    path = `/runs/${(await desk.startAtRest('refunds', 'Pay back A-1001.')).id}`;
  });

  async function visit(look: Look = {}): Promise<WatchedPage> {
    const watched = await desk.visit((look.width ?? 1280) < 720 ? `${path}?tab=chart` : path, look);
    await watched.page.locator('#state-resting-awaitingApproval.current').waitFor();
    return watched;
  }

  async function openFull(page: Page): Promise<void> {
    await page.getByRole('button', { name: 'Full chart' }).click();
    await page.locator('.drawing .current').first().waitFor();
    await page.locator('.drawing:focus').waitFor();
  }

  test('the full chart is dragged, scaled by wheel, keys and buttons, and fitted again', async () => {
    const watched = await visit();
    const { page } = watched;
    await openFull(page);
    const whole = { x: 0, y: 0, width: 516, height: 1243 };
    await page.keyboard.press('0');
    expect(await viewOf(page)).toEqual(whole);
    await page.keyboard.press('+');
    expect((await viewOf(page)).width).toBeCloseTo(516 / 1.25);
    await page.keyboard.press('-');
    expect(await viewOf(page)).toEqual(whole);
    for (const name of ['Zoom in', 'Zoom in', 'Zoom out'])
      await page.getByRole('button', { name, exact: true }).click();
    const zoomed = await viewOf(page);
    expect(zoomed.width).toBeCloseTo(516 / 1.25);
    await page.locator('.drawing').focus();
    await page.keyboard.press('ArrowDown');
    expect((await viewOf(page)).y).toBeGreaterThan(zoomed.y);
    await page.keyboard.press('ArrowUp');
    expect((await viewOf(page)).y).toBeCloseTo(zoomed.y);

    const box = (await page.locator('.drawing').boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    await page.mouse.move(x, y);
    await page.mouse.down();
    await page.mouse.move(x + 10, y + 50, { steps: 3 });
    await page.mouse.up();
    const dragged = await viewOf(page);
    const unit = Math.min(box.width / 516, box.height / 1243) * 1.25;
    expect(zoomed.y - dragged.y).toBeCloseTo(50 / unit, 0);
    await page.mouse.wheel(0, -400);
    await expect.poll(async () => (await viewOf(page)).width).toBeLessThan(dragged.width / 1.5);
    await page.getByRole('button', { name: 'Fit' }).click();
    expect(await viewOf(page)).toEqual(whole);
    expect(watched.problems).toEqual([]);
  });

  test('the labels of the chart beside the conversation are at least 11 px high', async () => {
    const { page } = await visit();
    const height = await page.evaluate(`(() => {
      const label = document.querySelector('.sketch text');
      return label.getScreenCTM().a * parseFloat(getComputedStyle(label).fontSize);
    })()`);
    expect(height).toBeGreaterThanOrEqual(11);
  });

  test('two fingers scale the chart on a phone', async () => {
    const { page } = await visit({ width: 360, height: 740 });
    await openFull(page);
    const before = await viewOf(page);
    await page.evaluate(SPREAD);
    const after = await viewOf(page);
    expect(before.width / after.width).toBeCloseTo(2, 1);
    expect(after.x + after.width / 2).toBeCloseTo(before.x + before.width / 2, 0);
  });

  test('each state says how often the run was in it, and for how long, up to the entry', async () => {
    const { page } = await visit();
    await openFull(page);
    await expect
      .poll(() => page.locator('.drawing [data-state="executingTools"] > .count').textContent())
      .toMatch(/^×1( · \d+ ms)?$/);
    const row = page.getByRole('row', { name: /^turn.planning/ });
    await expect
      .poll(() => row.getByRole('cell').allInnerTexts())
      .toEqual(['3', expect.stringMatching(/^[\d.]+ m?s$/)]);
    await page.getByRole('row', { name: /^resting.awaitingApproval 1 0 ms/ }).waitFor();
    await page.getByRole('button', { name: 'Close' }).click();
    await page.getByRole('slider', { name: 'Entry' }).press('Home');
    await openFull(page);
    await expect
      .poll(() => page.getByRole('rowheader').allInnerTexts())
      .toEqual(['turn', 'turn.planning', 'deciding']);
  });

  test('a step is drawn along its edges, into the hub and out of it; a jump and reduced motion move nothing', async () => {
    const { page } = await visit();
    const animations = await page.context().newCDPSession(page);
    await animations.send('Animation.enable');
    // So slow that the moves are not over before they are looked at.
    await animations.send('Animation.setPlaybackRate', { playbackRate: 0.001 });
    const cursor = page.getByRole('slider', { name: 'Entry' });
    const moving = () =>
      page.evaluate(`document.querySelector('.sketch').getAnimations({ subtree: true })
        .flatMap(one => one.animationName === 'move' ? [one.effect.getComputedTiming().endTime] : []).sort()`);
    expect(await moving()).toEqual([]);
    await cursor.press('Home');
    expect(await moving()).toEqual([]);
    const taken = page.locator('.sketch .latest.choice');
    for (let at = 1; at < 11; at += 1) {
      await cursor.press('ArrowRight');
      if ((await taken.count()) > 0 && (await page.locator('.sketch .latest').count()) > 1) break;
    }
    await page.keyboard.press('ArrowLeft');
    expect(await moving()).toEqual([]);
    await page.keyboard.press('ArrowRight');
    const ends = (await moving()) as number[];
    expect(ends).toEqual([110, 220]);
    await page.emulateMedia({ reducedMotion: 'reduce' });
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('ArrowRight');
    expect(await moving()).toEqual([]);
    await animations.send('Animation.setPlaybackRate', { playbackRate: 1 });
    await animations.detach();
  });

  inAll.each([1440, 768, 390, 360])('the parts of the full chart are in sight at %i px', async width => {
    const { page } = await visit({ width, height: 800 });
    await openFull(page);
    const box = await page.locator('.drawing').boundingBox();
    expect(box?.width).toBeGreaterThan(250);
    expect(box?.height).toBeGreaterThan(250);
  });
});
