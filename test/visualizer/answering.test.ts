import type { Locator, Page } from 'playwright-core';
import { afterEach, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, memory, type Run, type Tool, tool } from '../../agent/index.ts';
import { calls, resultsIn } from '../support/engine/agents.ts';
import { CHROMIUM, decideWith, type Look, type WatchedPage } from '../support/visualizer/browser.ts';
import { servePages } from '../support/visualizer/visits.ts';

const even = z.int().refine(n => n % 2 === 0, 'expected an even number');

const book = tool({
  name: 'book',
  description: 'Books a table.',
  input: z.object({}),
  prepare: ({ ask }) =>
    Promise.all([
      ask({ key: 'name', message: 'In whose name?', schema: z.string() }),
      ask({ key: 'people', message: 'How many people?', schema: even }),
      ask({ key: 'area', message: 'Where?', schema: z.enum(['garden', 'hall']) }),
      ask({ key: 'baby', message: 'A high chair?', schema: z.boolean() }),
      ask({ key: 'menu', message: 'Which courses?', schema: z.object({ courses: z.int() }) }),
    ]),
  run: (_, { prepared }) => prepared,
});

/** As a tool of an MCP server asks. */
const pay: Tool = {
  ...tool({ name: 'pay', description: 'Pays.', input: z.object({}), run: () => 'paid' }),
  prepare: (_, { askPeople }) =>
    askPeople?.({
      key: 'page',
      message: 'Have you paid?',
      schema: { type: 'object', properties: {}, additionalProperties: false },
      url: 'https://pay.example/<b>1</b>',
    }),
};

describe.skipIf(CHROMIUM === undefined)('what a tool asks, on the page', () => {
  const store = memory();
  const make = (name: string, tools: readonly Tool[]) =>
    createAgent({ name, store, tools, model: scripted([calls(name), { text: 'Done.' }]) });
  const agents = { book: make('book', [book as Tool]), pay: make('pay', [pay]) };
  const desk = servePages(Object.values(agents));
  let page: Page;
  let watched: WatchedPage;
  const runs: Run[] = [];
  afterEach(async () => {
    expect(watched.problems.filter(problem => !/422|400/.test(problem))).toEqual([]);
    await Promise.all(runs.splice(0).map(run => run.cancel()));
  });

  const button = (name: string): Locator => page.getByRole('button', { name, exact: true });
  const courses = (): Locator =>
    page.getByRole('group', { name: 'Which courses?' }).getByLabel('courses', { exact: true });

  async function visit(name: keyof typeof agents, look: Look = {}, path = ''): Promise<Run> {
    const run = await agents[name].start('go');
    runs.push(run);
    await run.settled();
    watched = await desk.visit(path || `/runs/${run.id}`, look);
    ({ page } = watched);
    page.setDefaultTimeout(8_000);
    await button('Answer').waitFor();
    return run;
  }

  test('has a field of its kind for each question, and is answered in two presses', async () => {
    const run = await visit('book');
    expect(await watched.findBarriers()).toEqual([]);
    await page.getByLabel('In whose name?').fill('12');
    await page.getByLabel('How many people?').fill('4');
    await page.getByLabel('Where?').selectOption('garden');
    await page.getByLabel('A high chair?').selectOption('false');
    await courses().fill('3');
    await watched.screenshot('questions');
    await button('Answer').click();
    await page.locator('.asked strong', { hasText: 'Answer book' }).waitFor();
    expect((await run.settled()).status).toBe('waiting');
    await button('Answer').press('Enter');
    await expect
      .poll(() => run.settled())
      .toMatchObject({
        status: 'finished',
        results: [{ output: ['12', 4, 'garden', false, { courses: 3 }] }],
      });
    await page.locator('.conversation').getByText('Done.').first().waitFor();
  });

  test('keeps what is left empty open, and shows why an answer does not fit', async () => {
    const run = await visit('book');
    await decideWith(button('Answer'));
    await page.getByText('Answer at least one question.').waitFor();
    await page.getByLabel('How many people?').fill('4.5');
    await page.getByText('Expected a whole number.').waitFor();
    await page.getByLabel('Where?').selectOption('hall');
    await decideWith(button('Answer'));
    await expect
      .poll(() => page.getByLabel('Where?').count(), { message: 'the wrong number holds the answers back' })
      .toBe(1);
    await page.getByLabel('How many people?').fill('3');
    await decideWith(button('Answer'));
    await expect.poll(() => page.getByLabel('Where?').count()).toBe(0);
    await expect.poll(() => page.getByLabel('In whose name?').count()).toBe(1);
    await page.getByLabel('In whose name?').fill('Ada');
    await page.getByLabel('A high chair?').selectOption('true');
    await page.getByRole('tab', { name: 'JSON' }).click();
    const json = page.getByRole('textbox', { name: 'Answers' });
    expect(JSON.parse(await json.inputValue())).toEqual({ name: 'Ada', baby: true });
    await json.fill('{ "name": "Ada", "baby": true, "menu": { "courses": 1 } }');
    await decideWith(button('Answer'));
    await page.getByText('The answer 3 does not fit: expected an even number').waitFor();
    await watched.screenshot('questions-fault');
    await page.getByLabel('How many people?').fill('2');
    await decideWith(button('Answer'));
    await expect
      .poll(() => run.settled())
      .toMatchObject({ results: [{ output: ['Ada', 2, 'hall', true, { courses: 1 }] }] });
  });

  test('is declined with a reason that the model reads', async () => {
    const run = await visit('book', {}, '/inbox');
    await button('Decline…').click();
    await page.getByLabel('Reason').fill('We are closed.');
    await decideWith(button('Decline'));
    await expect.poll(async () => (await run.settled()).status).toBe('finished');
    expect(JSON.stringify(resultsIn((await agents.book.open(run.id)).context.transcript))).toContain(
      'We are closed.',
    );
  });

  test('fits a narrow screen, and shows the address of another page as plain text', async () => {
    const run = await visit('pay', { width: 360, height: 740, colorScheme: 'dark' });
    await page.getByText('https://pay.example/<b>1</b>').first().waitFor();
    await expect.poll(() => page.locator('a[href*="pay.example"]').count()).toBe(0);
    const width = await page.evaluate('document.documentElement.scrollWidth');
    expect(width).toBeLessThanOrEqual(360);
    expect(await watched.findBarriers()).toEqual([]);
    await watched.screenshot('questions-narrow');
    await page.getByLabel('Have you paid? https://pay.example/<b>1</b>').selectOption('done');
    await decideWith(button('Answer'));
    await expect
      .poll(() => run.settled())
      .toMatchObject({ status: 'finished', results: [{ output: 'paid' }] });
  });
});
