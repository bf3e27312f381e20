import { beforeAll, describe, expect, test } from 'vitest';
import { memory } from '../../agent/index.ts';
import { sampled } from '../support/sample.ts';
import { CHROMIUM, decideWith, type Look, type WatchedPage } from '../support/visualizer/browser.ts';
import { makeDemoAgents } from '../support/visualizer/demo-agents.ts';
import { finishErring, makeErringAgent } from '../support/visualizer/erring-agent.ts';
import { servePages } from '../support/visualizer/visits.ts';

const ASK = 'Ada writes that order A-1001 arrived broken. Pay back what she paid.';

/** The last is a window of 1280 by 900 px at 200 % zoom. */
const SIZES = [
  [360, 740],
  [390, 844],
  [768, 1024],
  [640, 450],
] as const;

describe.skipIf(CHROMIUM === undefined)('a run on phones and at zoom', () => {
  const store = memory();
  const agents = [...makeDemoAgents(store).agents, makeErringAgent(store)];
  const desk = servePages(agents);
  let ended: string;
  beforeAll(async () => {
    const erring = agents.at(-1);
    if (erring !== undefined) ended = `/runs/${(await finishErring(erring)).runId}`;
  });

  async function visit(path: string, look: Look): Promise<WatchedPage> {
    const watched = await desk.visit(path, look);
    await watched.page
      .getByRole('complementary', { name: 'Inspector' })
      .getByRole('heading', { level: 2 })
      .waitFor();
    return watched;
  }

  async function waiting(): Promise<string> {
    return `/runs/${(await desk.startAtRest('refunds', ASK)).id}`;
  }

  test.each(sampled(SIZES, 1))(
    'the title, the status and the entry stay in view in one line, %i by %i px',
    async (width, height) => {
      const { page } = await visit(ended, { width, height });
      await page.mouse.move(width / 2, 100);
      await page.evaluate('scrollTo(0, 1e6)');
      const line = page.locator('.title-line');
      await expect.poll(async () => (await line.boundingBox())?.y).toBe(0);
      expect((await line.boundingBox())?.height).toBeLessThan(48);
      for (const part of [line.locator('h1'), line.locator('.status'), line.locator('.now')]) {
        const box = await part.boundingBox();
        expect(box?.width).toBeGreaterThan(20);
        expect((box?.x ?? 0) + (box?.width ?? 0)).toBeLessThanOrEqual(width);
      }
      await expect.poll(() => line.innerText()).toMatch(/finished\s*\d+ \/ \d+/);
      expect((await page.locator('.strip').boundingBox())?.y).toBeLessThan(0);
    },
  );

  test('the facts of the run are in one line each, and none of them is out of reach', async () => {
    const { page } = await visit(ended, { width: 360, height: 740 });
    const line = page.locator('.lineage');
    expect((await line.boundingBox())?.height).toBeLessThan(40);
    await line.getByRole('button', { name: 'PNG' }).focus();
    const { x = 0, width = 0 } = (await line.getByRole('button', { name: 'PNG' }).boundingBox()) ?? {};
    expect(x + width).toBeLessThanOrEqual(360);
  });

  test.each(sampled(SIZES, 1))(
    'the bar of decisions stays in view, leaves room to read, and decides, %i by %i px',
    async (width, height) => {
      const { page } = await visit(await waiting(), { width, height });
      const approve = page.getByRole('button', { name: 'Approve' });
      await approve.waitFor();
      const box = await page.locator('.decision-bar').boundingBox();
      expect((box?.y ?? 0) + (box?.height ?? 0)).toBeLessThanOrEqual(height + 1);
      expect(box?.height).toBeLessThanOrEqual(height * 0.6 + 1);
      const button = await approve.boundingBox();
      expect((button?.y ?? 0) + (button?.height ?? 0)).toBeLessThanOrEqual(height);
      await page.evaluate('scrollTo(0, 1e6)');
      const inspector = await page.locator('.entry-actions').boundingBox();
      const bar = await page.locator('.decision-bar').boundingBox();
      expect((inspector?.y ?? 0) + (inspector?.height ?? 0)).toBeLessThanOrEqual(bar?.y ?? 0);
      await decideWith(approve);
      await page.locator('.title-line .status', { hasText: 'finished' }).waitFor();
    },
  );
});
