import { existsSync } from 'node:fs';
import puppeteer, { type Browser, type Page } from 'puppeteer-core';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, memory, tool } from '../../agent/index.ts';
import { inAll, TAKES_ALL } from '../support/sample.ts';
import { ServedRuns } from '../support/visualizer/served-runs.ts';

const PLACES = [process.env.FIREFOX_PATH ?? '', '/usr/bin/firefox-esr'];
const FIREFOX = PLACES.find(place => place !== '' && existsSync(place));

describe.skipIf(FIREFOX === undefined)('the page in Firefox (skipped without firefox-esr)', () => {
  const store = memory();
  const shop = createAgent({
    name: 'shop',
    store,
    tools: [
      tool({
        name: 'refund',
        description: 'Pays money back.',
        input: z.object({ orderId: z.string(), cents: z.int() }),
        approval: true,
        run: ({ cents }) => ({ refunded: cents }),
      }),
    ],
    model: scripted([
      { text: 'Paying back.', toolCalls: [{ name: 'refund', arguments: { orderId: 'B-1', cents: 4200 } }] },
      { text: 'All done.' },
    ]),
  });
  let browser: Browser;
  let api: ServedRuns;
  let page: Page;
  const problems: string[] = [];
  beforeAll(async () => {
    if (!TAKES_ALL || FIREFOX === undefined) return;
    api = await ServedRuns.listen([shop]);
    browser = await puppeteer.launch({ browser: 'firefox', executablePath: FIREFOX, headless: true });
    page = await browser.newPage();
    await page.setViewport({ width: 1280, height: 800 });
    page.setDefaultTimeout(60_000);
    page.on('console', message => {
      if (message.type() === 'error') problems.push(message.text());
    });
    page.on('pageerror', error => problems.push(String(error)));
  });
  afterAll(async () => {
    await browser?.close();
    await api?.close();
  });

  /** The entry that the strip is at, as an expression. */
  const ENTRY = `Number(document.querySelector('[role="slider"]').ariaValueNow)`;
  const entryIs = (wanted: string) => page.waitForFunction(`(now => ${wanted})(${ENTRY})`);

  inAll('lists, opens a run, decides in two presses, and scrubs, without errors', async () => {
    const run = await shop.start('One parcel came back.');
    await run.settled();
    await page.goto(`${api.url}/runs`);
    await (await page.waitForSelector(`a[href="/runs/${run.id}"]`))?.click();

    const approve = page.locator('::-p-aria([name="Approve"][role="button"])');
    await approve.click();
    await page.waitForSelector('.asked strong ::-p-text(refund of $42.00 for B-1)');
    expect((await store.read(run.id)).some(({ event }) => event.type === 'approval.decided')).toBe(false);
    await new Promise(resolve => setTimeout(resolve, 700));
    await approve.click();
    await page.waitForSelector('::-p-text(All done.)');
    expect((await store.read(run.id)).filter(({ event }) => event.type === 'approval.decided')).toHaveLength(
      1,
    );

    const slider = await page.waitForSelector('[role="slider"]');
    await slider?.focus();
    await slider?.press('End');
    const last = Number(await page.evaluate(ENTRY));
    await slider?.press('Home');
    await entryIs('now === 1');
    await slider?.press('ArrowRight');
    await entryIs('now === 2');
    await slider?.press('End');
    await entryIs(`now === ${last}`);
    const box = await slider?.boundingBox();
    if (box == null) throw new Error('The strip is not shown.');
    await page.mouse.move(box.x + box.width * 0.5, box.y + box.height / 2);
    await page.mouse.down();
    await entryIs(`now > 1 && now < ${last}`);
    await page.mouse.move(box.x + 1, box.y + box.height / 2, { steps: 5 });
    await page.mouse.up();
    await entryIs('now === 1');
    expect(problems).toEqual([]);
  });
});
