import type { Locator, Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { type Agent, content, createAgent, memory, tool } from '../../agent/index.ts';
import { inAll } from '../support/sample.ts';
import { CHROMIUM, type WatchedPage } from '../support/visualizer/browser.ts';
import { HOSTILE } from '../support/visualizer/demo-agents.ts';
import { servePages } from '../support/visualizer/visits.ts';

/** One red pixel. */
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
const SVG = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" onload="owned=1"/>').toString('base64');

const nested = (depth: number): object => (depth === 0 ? { end: true } : { in: nested(depth - 1) });

const LOG = Array.from({ length: 4_000 }, (_, at) => `Line ${at} of the log.`).join('\n');

const VALUES: Readonly<Record<string, unknown>> = {
  tree: {
    orderId: 'A-1001',
    customer: { name: 'Ada', tags: ['new', 'paid'] },
    deep: nested(100),
    many: Array.from({ length: 50_000 }, (_, at) => at),
    'a key': { [HOSTILE.order]: HOSTILE.order },
    cost: 0.1 + 0.2,
  },
  table: Array.from({ length: 400 }, (_, id) => ({
    id,
    region: ['EMEA', 'APAC'][id % 2],
    growth: id / 7,
    ...(id === 3 && { note: HOSTILE.markup }),
    ...Object.fromEntries(Array.from({ length: 12 }, (_, at) => [`extra${at}`, at])),
  })),
  links: {
    page: 'https://example.test/a?b=1',
    script: 'javascript:owned=1',
    text: 'Read [the terms](https://example.test/terms) and [this](javascript:owned=1).\n\n- one\n- two',
  },
  images: content([
    'Here:',
    { type: 'image', url: `data:image/png;base64,${PNG}` },
    { type: 'image', url: `data:image/png;base64,${SVG}` },
    { type: 'image', url: `data:image/svg+xml;base64,${SVG}` },
    { type: 'image', url: 'https://example.test/dot.png' },
  ]),
  mcp: { content: [{ type: 'image', data: PNG, mimeType: 'image/png' }] },
  long: LOG,
  'table-aside': LOG,
  big: {
    text: 'x'.repeat(2_500_000),
    rows: Array.from({ length: 60_000 }, (_, id) => ({ id, name: `name ${id}` })),
  },
};

const show = tool({
  name: 'show',
  description: 'Shows a value.',
  input: z.object({ what: z.string() }),
  sideEffect: 'none',
  run: ({ what }) => VALUES[what] as never,
});

function makeViewer(what: string): Agent {
  return createAgent({
    name: what,
    model: scripted([
      { toolCalls: [{ name: 'show', arguments: { what } }] },
      { text: 'It is **done**.\n\n| a |\n|---|\n| 1 |' },
    ]),
    tools: [show],
    store,
    maxResultBytes: what.endsWith('-aside') ? 2_000 : 20_000_000,
  });
}

const store = memory();

const INPUT = {
  small: { rows: [{ a: { b: { c: { d: 'deepest' } } } }, { a: 1 }], link: 'https://example.test/' },
  large: { rows: Array.from({ length: 300 }, (_, id) => ({ id, text: 'x'.repeat(40) })) },
};

const publish = tool({
  name: 'publish',
  description: 'Publishes rows.',
  input: z.looseObject({}),
  approval: () => ({ required: true }),
  run: () => 'published',
});

/** An agent that asks a person before it publishes a value. */
const makeAsker = (size: keyof typeof INPUT): Agent =>
  createAgent({
    name: `asks-${size}`,
    model: scripted([{ toolCalls: [{ name: 'publish', arguments: INPUT[size] }] }, { text: 'Done.' }]),
    tools: [publish],
    store,
  });

describe.skipIf(CHROMIUM === undefined)('values', () => {
  const desk = servePages([...Object.keys(VALUES).map(makeViewer), makeAsker('small'), makeAsker('large')]);

  async function visit(what: string, width = 1280): Promise<WatchedPage> {
    const run = await desk.startAtRest(what, 'Show it.');
    return await desk.visit(`/runs/${run.id}`, { width });
  }

  /** The result of the call, unfolded. */
  async function resultIn(page: Page): Promise<Locator> {
    const result = page.locator('.call-result > details').first();
    await result.locator('summary').first().click();
    return result;
  }

  test('a tree opens its first levels, counts its members, folds by keyboard, and adds to long lists by a press', async () => {
    const { page, problems } = await visit('tree');
    const result = await resultIn(page);
    await result.getByText('6 keys', { exact: true }).waitFor();
    await result.getByText('"Ada"', { exact: true }).waitFor();
    const tags = result.locator('details', { hasText: 'tags' }).last().locator('summary').first();
    await tags.getByText('2 items').waitFor();
    await expect.poll(() => result.getByText('"paid"', { exact: true }).count()).toBe(0);
    await tags.press('Enter');
    await result.getByText('"paid"', { exact: true }).waitFor();
    await tags.press('Enter');
    await result.getByText('"paid"', { exact: true }).waitFor({ state: 'detached' });
    await result.getByText('0.3', { exact: true }).waitFor();
    await result.locator('summary', { hasText: '50,000 items' }).last().click();
    const more = result.getByRole('button', { name: 'Show 100 more of 50,000' });
    await more.waitFor();
    const rows = result.locator('.members .members > li');
    const before = await rows.count();
    await more.click();
    await expect.poll(() => rows.count()).toBe(before + 100);
    await expect.poll(() => result.getByText(HOSTILE.order).count()).toBe(0);
    expect(problems).toEqual([]);
  });

  test('a hundred levels fold and unfold one by one', async () => {
    const { page, problems } = await visit('tree');
    const result = await resultIn(page);
    const deep = result.locator('details:not([open])', { hasText: 'in' });
    for (let level = 0; level < 5; level += 1)
      await deep.locator('> summary', { hasText: 'in' }).last().click();
    await expect.poll(() => result.locator('details[open]').count()).toBeGreaterThan(5);
    expect(problems).toEqual([]);
  });

  test('the path of a member and its value are copied', async () => {
    const { page } = await visit('tree');
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    const result = await resultIn(page);
    await result.getByRole('button', { name: 'Copy output.customer.name' }).press('Enter');
    await result.getByRole('button', { name: 'Copy path' }).click();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe('output.customer.name');
    await result.getByRole('button', { name: 'Copy value' }).click();
    await expect.poll(() => page.evaluate('navigator.clipboard.readText()')).toBe('Ada');
    await result.getByRole('button', { name: 'Copy output["a key"]', exact: true }).waitFor();
  });

  test('a list of objects is a table with few columns, whose head stays, or a tree', async () => {
    const { page, problems } = await visit('table');
    const result = await resultIn(page);
    const table = result.getByRole('region', { name: 'Table of 400 rows' });
    const head = await table.locator('th').allInnerTexts();
    expect(head.slice(0, 4)).toEqual(['#', 'id', 'region', 'growth']);
    expect(head).toHaveLength(12);
    expect(head.at(-1)).toBe('6 other keys');
    await expect.poll(() => table.locator('tbody tr').count()).toBe(100);
    await result.getByRole('button', { name: 'Show 100 more of 400' }).click();
    await expect.poll(() => table.locator('tbody tr').count()).toBe(200);
    await page.evaluate(`document.querySelector('.value-table').scrollTo(50, 2000)`);
    const top = async (locator: Locator) => (await locator.boundingBox())?.y;
    expect(Math.abs(Number(await top(table.locator('th').first())) - Number(await top(table)))).toBeLessThan(
      3,
    );
    expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0);
    await result.getByRole('button', { name: 'Tree' }).click();
    await result.locator('summary', { hasText: '15 keys' }).first().waitFor();
    expect(problems).toEqual([]);
  });

  test('Markdown has a switch to its source, and a text one to Markdown', async () => {
    const { page } = await visit('links');
    const reply = page.locator('.block.reply').last();
    await reply.locator('strong', { hasText: 'done' }).waitFor();
    await reply.getByRole('button', { name: 'Source' }).press('Enter');
    await reply.getByText('It is **done**.').waitFor();
    await reply.getByRole('button', { name: 'Formatted' }).click();
    await reply.locator('table td').waitFor();
    const result = await resultIn(page);
    await result.locator('.text', { hasText: '[the terms](https://example.test/terms)' }).waitFor();
    await result.getByRole('button', { name: 'Formatted' }).press('Enter');
    await result.locator('li', { hasText: 'one' }).last().waitFor();
  });

  test('a link is inert: a press shows its whole address, a second opens it, and scripts are no links', async () => {
    const { page, problems } = await visit('links');
    const result = await resultIn(page);
    await expect.poll(() => result.locator('a').count()).toBe(0);
    await result.getByRole('button', { name: 'https://example.test/a?b=1', exact: true }).press('Enter');
    const link = result.getByRole('link', { name: 'Open https://example.test/a?b=1' });
    await expect.poll(() => link.getAttribute('target')).toBe('_blank');
    await expect.poll(() => link.getAttribute('rel')).toBe('noreferrer noopener nofollow');
    expect(await page.evaluate('document.activeElement.tagName')).toBe('A');
    await link.press('Escape');
    await link.waitFor({ state: 'detached' });
    await expect.poll(() => result.locator('a, button', { hasText: 'javascript' }).count()).toBe(0);
    expect(problems).toEqual([]);
  });

  test('images are made of their bytes; other types, wrong bytes and addresses are words', async () => {
    const { page, problems } = await visit('images');
    const result = await resultIn(page);
    const image = result.getByRole('img', { name: 'image/png, 1 KiB' });
    await expect.poll(() => image.evaluate(element => Reflect.get(element, 'naturalWidth'))).toBe(1);
    await expect.poll(() => image.getAttribute('src')).toMatch(/^blob:/);
    await result.getByText('Not shown: this is not an image of the type image/png.').waitFor();
    await result.getByText('[image/svg+xml image, 1 KiB]', { exact: true }).waitFor();
    await result.getByText('[image, https://example.test/dot.png]', { exact: true }).waitFor();
    expect(await page.evaluate('[document.images.length, typeof owned]')).toEqual([1, 'undefined']);
    const mcp = await visit('mcp');
    const inner = await resultIn(mcp.page);
    await inner.locator('summary', { hasText: '0' }).last().click();
    await expect
      .poll(() =>
        inner
          .locator('img')
          .first()
          .evaluate(element => Reflect.get(element, 'naturalWidth')),
      )
      .toBe(1);
    expect([...problems, ...mcp.problems]).toEqual([]);
  });

  test('a long text is shown by pages of 20,000 characters', async () => {
    const { page } = await visit('long');
    const result = page.locator('.call-result > details');
    await result.locator('> summary').first().click();
    await result.getByText('Line 0 of the log.').first().waitFor();
    const texts = result.locator('.long .text');
    expect((await texts.first().innerText()).length).toBeLessThanOrEqual(20_000);
    await result
      .getByRole('button', { name: /^Show more/ })
      .first()
      .click();
    await expect.poll(() => texts.count()).toBe(2);
    // Not its inner text: a page out of sight is not laid out.
    await expect.poll(() => texts.last().textContent()).toMatch(/^Line \d+ of the log\./);
  });

  test('a large result that is stored aside is read by pages', async () => {
    const { page, problems } = await visit('table-aside');
    const whole = page.locator('.call-result > details', { hasText: 'full result' });
    const asked: string[] = [];
    page.on(
      'request',
      request => request.url().includes('/results/') && asked.push(new URL(request.url()).search),
    );
    await whole.locator('> summary').click();
    await whole.getByText('Line 0 of the log.').waitFor();
    await whole.getByRole('button', { name: /^Show more/ }).click();
    await expect.poll(() => whole.locator('.text').count()).toBe(2);
    expect(asked[0]).toBe('?offset=0&limit=20000');
    expect(asked).toHaveLength(2);
    expect(problems).toEqual([]);
  });

  test('of a value to decide about, nothing is folded if it is small, and what is folded is not seen', async () => {
    const small = await visit('asks-small');
    const box = small.page.getByRole('region', { name: 'Input of publish' });
    await box.getByText('"deepest"', { exact: true }).waitFor();
    await expect.poll(() => box.locator('details:not([open])').count()).toBe(0);
    const large = await visit('asks-large');
    const folded = large.page.getByRole('region', { name: 'Input of publish' });
    await folded.getByText('300 items').first().waitFor();
    await large.page.evaluate(`document.querySelector('.seen-scroll').scrollTo(0, 1e6)`);
    await large.page.getByText('not yet seen').waitFor();
    await small.page.evaluate(`document.querySelector('.seen-scroll').scrollTo(0, 1e6)`);
    await small.page.getByText('not yet seen').waitFor({ state: 'detached' });
    expect([...small.problems, ...large.problems]).toEqual([]);
  });

  test('of a value of five megabytes, little is on the page', async () => {
    const { page, problems } = await visit('big');
    const result = await resultIn(page);
    await result.getByText('60,000 items').first().waitFor();
    await result.locator('summary', { hasText: 'text' }).last().click();
    await result.getByText('xxxx').last().waitFor();
    await expect.poll(() => result.locator('*').count()).toBeLessThan(1_000);
    expect((await result.innerText()).length).toBeLessThan(50_000);
    expect(problems).toEqual([]);
  });

  inAll.each([390, 768, 1440])(
    'values fit into %i px, and have no barriers in both colour schemes',
    async width => {
      for (const what of ['tree', 'table', 'images', 'links']) {
        const watched = await visit(what, width);
        await resultIn(watched.page);
        expect(
          await watched.page.evaluate('document.documentElement.scrollWidth - innerWidth'),
        ).toBeLessThanOrEqual(0);
        for (const colorScheme of ['light', 'dark'] as const) {
          await watched.page.emulateMedia({ colorScheme });
          expect(await watched.findBarriers()).toEqual([]);
        }
      }
    },
  );
});
