import type { Locator, Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, memory, type Run, tool } from '../../agent/index.ts';
import { inAll, sampled } from '../support/sample.ts';
import { CHROMIUM, type WatchedPage } from '../support/visualizer/browser.ts';
import { servePages } from '../support/visualizer/visits.ts';

const BOSS = 'the-token-of-boss-000000';

/** A form of the page. */
type FormCase = {
  name: string;
  /** The buttons that open it, in order; none for a form that is always open. */
  opened: readonly string[];
  field: string;
  /** What a person types, which can be sent. */
  typed: string;
  /** The type of the entry that sending it appends; with `new run`, the page leads to another run. */
  sent: string;
};

const CASES: readonly FormCase[] = [
  { name: 'a message', opened: [], field: 'Message', typed: 'Hurry.', sent: 'message.received' },
  {
    name: 'a breakpoint',
    opened: ['Add a breakpoint…'],
    field: 'Tool',
    typed: 'refund',
    sent: 'breakpoints.set',
  },
  {
    name: 'an edited reply',
    opened: ['Edit reply…'],
    field: 'Text of the reply',
    typed: 'Paying a part.',
    sent: 'turn.edited',
  },
  {
    name: 'an edited input',
    opened: ['Edit input of refund…'],
    field: 'cents',
    typed: '5',
    sent: 'call.edited',
  },
  {
    name: 'a fork with another input',
    opened: ['Fork here…', 'Change a call…'],
    field: 'cents',
    typed: '5',
    sent: 'new run',
  },
  {
    name: 'a fork with another reply',
    opened: ['Fork here…', 'Edit reply…'],
    field: 'Text of the reply',
    typed: 'Paying a part.',
    sent: 'new run',
  },
  {
    name: 'a fork with a message',
    opened: ['Fork here…', 'Add a message…'],
    field: 'Message to the fork',
    typed: 'Only a part.',
    sent: 'new run',
  },
  {
    name: 'a fork with parameters',
    opened: ['Fork here…', 'Parameters…'],
    field: 'Parameters of the next turns',
    typed: '{ "settings": { "temperature": 1 } }',
    sent: 'new run',
  },
];

describe.skipIf(CHROMIUM === undefined)(
  'in the forms of the page, Ctrl+Enter sends and Escape closes',
  () => {
    const store = memory();
    const refund = tool({
      name: 'refund',
      description: 'Pays money back.',
      input: z.object({ orderId: z.string(), cents: z.int() }),
      run: ({ cents }) => ({ refunded: cents }),
    });
    const shop = createAgent({
      name: 'shop',
      store,
      tools: [refund],
      model: scripted([
        { text: 'Paying back.', toolCalls: [{ name: 'refund', arguments: { orderId: 'A-1', cents: 4200 } }] },
        { text: 'All done.' },
      ]),
    });
    const desk = servePages([shop], { token: BOSS });

    /** A run that rests before its call starts. */
    async function hold(): Promise<Run> {
      const run = await shop.start('Pay A-1 back', { paused: true });
      await run.submit([
        { type: 'breakpoints', breakpoints: [{ id: 'tools', next: 'executeTools' }] },
        { type: 'unpause' },
      ]);
      await run.settled();
      return run;
    }

    async function visit(path: string): Promise<WatchedPage> {
      const watched = await desk.visitWith(BOSS, path, { width: 1440, height: 900 });
      await watched.page.locator('#hold-title').waitFor();
      watched.problems.splice(0);
      return watched;
    }

    const button = (page: Page, name: string): Locator => page.getByRole('button', { name });
    const focused = (page: Page): Promise<string> =>
      page.evaluate(`document.querySelector('button:focus')?.textContent ?? ''`);

    /** The field of the form, in its section: a fork has fields of the same names as the run. */
    async function open(page: Page, { opened, field }: FormCase): Promise<Locator> {
      const isFork = opened[0] === 'Fork here…';
      const fork = page.getByRole('region', { name: /^Fork at entry/ });
      for (const name of opened) {
        if (name === 'Fork here…' && (await fork.count()) > 0) continue;
        await (name !== opened[0] && isFork
          ? fork.getByRole('button', { name })
          : button(page, name)
        ).click();
      }
      return (isFork ? fork : page).getByLabel(field, { exact: true });
    }

    test.each(sampled(CASES, 1))(
      '$name: what was typed is kept until it is sent or discarded',
      async form => {
        const run = await hold();
        const before = (await store.read(run.id)).length;
        const watched = await visit(`/runs/${run.id}`);
        const { page } = watched;
        const question = page.getByText('Discard what you typed?');
        const opener = form.opened.at(-1);
        let field = await open(page, form);
        if (opener !== undefined) {
          await field.press('Escape');
          await expect.poll(() => field.count()).toBe(0);
          await expect.poll(() => focused(page)).toContain(opener);
          field = await open(page, form);
        }
        await field.fill(form.typed);
        await field.press('Escape');
        if (opener !== undefined) {
          await question.waitFor();
          expect(await watched.findBarriers()).toEqual([]);
          await page.keyboard.press('Enter');
          await expect.poll(() => field.count()).toBe(0);
          await expect.poll(() => focused(page)).toContain(opener);
          await expect.poll(() => question.count()).toBe(0);
          field = await open(page, form);
          await expect.poll(() => field.inputValue()).not.toBe(form.typed);
          await field.fill(form.typed);
          await field.press('Escape');
          await question.waitFor();
        }
        await expect.poll(() => field.inputValue()).toBe(form.typed);
        await field.press('Control+Enter');
        if (form.sent === 'new run')
          await page.waitForURL(url => url.pathname.startsWith('/runs/') && !url.pathname.endsWith(run.id));
        else
          await expect
            .poll(async () => (await store.read(run.id, before)).map(({ event }) => event.type))
            .toContain(form.sent);
        await expect.poll(() => question.count()).toBe(0);
      },
    );

    inAll('the form of forks closes when nothing is open in it', async () => {
      const run = await hold();
      const { page } = await visit(`/runs/${run.id}`);
      await button(page, 'Fork here…').click();
      const fork = page.getByRole('region', { name: /^Fork at entry/ });
      await button(page, 'Add a message…').click();
      await fork.getByLabel('Message to the fork').press('Escape');
      await expect.poll(() => focused(page)).toContain('Add a message…');
      await page.keyboard.press('Escape');
      await expect.poll(() => fork.count()).toBe(0);
      await expect.poll(() => focused(page)).toContain('Fork here…');
    });

    test('a new run keeps its input, and a token too', async () => {
      const { page } = await desk.visit('/runs');
      const token = page.getByLabel('Token');
      await token.fill(BOSS);
      await token.press('Escape');
      await expect.poll(() => token.inputValue()).toBe(BOSS);
      await token.press('Control+Enter');
      const newRun = page.getByRole('button', { name: 'New run' });
      await newRun.click();
      const input = page.getByLabel('Input');
      await input.fill('Pay A-1 back');
      await input.press('Escape');
      await newRun.click();
      await expect.poll(() => input.inputValue()).toBe('Pay A-1 back');
      await input.press('Control+Enter');
      await page.waitForURL(/\/runs\/run_/);
    });
  },
);
