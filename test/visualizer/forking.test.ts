import { writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, memory, type Run, tool } from '../../agent/index.ts';
import type { RunEvent } from '../../protocol/event.ts';
import { inAll } from '../support/sample.ts';
import { makeTemporaryFolder } from '../support/temporary-folders.ts';
import { CHROMIUM, decideWith, type Look, type WatchedPage } from '../support/visualizer/browser.ts';
import { servePages } from '../support/visualizer/visits.ts';

/** A script for a page that decodes an image: its size, the colour of its corner, and how many colours it has. */
const inspectImage = (png: Buffer) => `(async () => {
  const bytes = Uint8Array.from(atob('${png.toString('base64')}'), character => character.charCodeAt(0));
  const bitmap = await createImageBitmap(new Blob([bytes], { type: 'image/png' }));
  const { width, height } = bitmap;
  const drawing = new OffscreenCanvas(width, height).getContext('2d');
  drawing.drawImage(bitmap, 0, 0);
  const { data } = drawing.getImageData(0, 0, width, height);
  const colors = new Set(new Uint32Array(data.buffer)).size;
  return { size: [width, height], corner: [...data.slice(0, 4)].join(' '), colors };
})()`;

describe.skipIf(CHROMIUM === undefined)('forking a run on the page', () => {
  const store = memory();
  const refunded: number[] = [];
  const other = join(makeTemporaryFolder('forking'), 'other.json');
  writeFileSync(other, JSON.stringify([{ text: '' }, { text: 'Told by another.' }]));
  const refund = tool({
    name: 'refund',
    description: 'Pays money back.',
    input: z.object({ orderId: z.string(), cents: z.int().positive() }),
    approval: true,
    run: ({ cents }) => {
      refunded.push(cents);
      return { refunded: cents };
    },
  });
  const shop = createAgent({
    name: 'shop',
    store,
    tools: [refund],
    forkModels: [scripted({ file: other })],
    model: scripted([
      { text: 'Paying back.', toolCalls: [{ name: 'refund', arguments: { orderId: 'A-1', cents: 4200 } }] },
      { text: 'All done.' },
    ]),
  });
  const desk = servePages([shop]);
  let run: Run;
  beforeAll(async () => {
    run = (await shop.start('Pay A-1 back')) as Run;
    const settled = await run.settled();
    if (settled.status === 'waiting') for (const call of settled.approvals) await run.approve(call.callId);
    await run.settled();
  });

  /** The run's page, at an entry. */
  async function visitAt(entry: number, look?: Look): Promise<WatchedPage> {
    return await desk.visit(`/runs/${run.id}?at=${entry}`, look);
  }

  /** The run's page with the open form of forking. */
  async function visit(form: string): Promise<Page> {
    const { page } = await desk.visit(`/runs/${run.id}`);
    await page.getByRole('button', { name: /Fork here/ }).click();
    await page.getByRole('button', { name: form }).click();
    return page;
  }

  /** The id of the fork that the page leads to. */
  async function forkOf(page: Page): Promise<string> {
    await page.waitForURL(url => url.pathname.startsWith('/runs/') && !url.pathname.endsWith(run.id));
    return new URL(page.url()).pathname.split('/').at(-1) ?? '';
  }

  /** The journal of a fork, once it rests or has ended. */
  async function journal(runId: string): Promise<RunEvent[]> {
    await expect.poll(async () => (await store.get(runId))?.status, { timeout: 20_000 }).not.toBe('running');
    return (await store.read(runId)).map(({ event }) => event);
  }

  inAll('by the key f, which moves the focus into the form', async () => {
    const { page } = await visitAt(1);
    await page.getByRole('button', { name: /Fork here/ }).waitFor();
    await page.keyboard.press('f');
    await page.getByLabel(/Replay tools/).waitFor();
    await expect.poll(() => page.evaluate('document.activeElement.type')).toBe('checkbox');
  });

  test('with half the amount, and compares the two', async () => {
    const page = await visit('Change a call…');
    await page.getByLabel('cents', { exact: true }).fill('2100');
    await page.getByRole('button', { name: 'Fork and approve this input' }).click();
    const fork = await forkOf(page);
    expect((await journal(fork)).at(-1)?.type).toBe('turn.completed');
    expect(refunded).toEqual([4200, 2100]);
    await page.getByRole('link', { name: 'compare', exact: true }).click();
    await page.waitForURL(url => url.pathname === `/compare/${run.id}..${fork}`);
    await expect.poll(() => page.locator('main').innerText()).toContain('2100');
  });

  test('once, and by the person, if the first reply is lost', async () => {
    const page = await visit('Add a message…');
    await page.getByLabel('Deciding as').fill('Ada');
    const made: string[] = [];
    await page.route(
      '**/fork',
      async route => {
        made.push(((await (await route.fetch()).json()) as { runId: string }).runId);
        await route.abort();
      },
      { times: 1 },
    );
    await page.getByRole('button', { name: 'Fork without a change' }).click();
    const fork = await forkOf(page);
    expect(made).toEqual([fork]);
  });

  test('not with invalid JSON: the panel says what is wrong with it', async () => {
    const page = await visit('Parameters…');
    await page.getByLabel('Parameters of the next turns').fill('{ temperature: 0 }');
    await page.getByRole('button', { name: 'Fork with these parameters' }).click();
    const alert = page.locator('.fork-panel form').getByRole('alert');
    await expect.poll(() => alert.innerText()).toMatch(/^Invalid JSON: .+ Put text in "quotes"\.$/s);
    expect(new URL(page.url()).pathname).toBe(`/runs/${run.id}`);
  });

  test('from a form whose fields come late, and leave the focus where the person types', async () => {
    const { page } = await visitAt(11);
    const asked = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<void>();
    await page.route('**/agents/shop', async route => {
      asked.resolve();
      await answered.promise;
      await route.continue();
    });
    await page.getByRole('button', { name: /Fork here/ }).click();
    await page.getByRole('button', { name: 'Change a call…' }).click();
    await asked.promise;
    const result = page.getByLabel('Another result, as JSON');
    await result.focus();
    answered.resolve();
    await page.getByLabel('cents', { exact: true }).waitFor();
    await page.keyboard.type('5');
    await expect.poll(() => result.inputValue()).toBe('5');
  });

  inAll('with another result of a call that has run, and executes nothing', async () => {
    const before = refunded.length;
    const page = await visit('Change a call…');
    await page.getByLabel('Another result, as JSON').fill('{ "refunded": 0 }');
    await page.getByRole('button', { name: 'Fork with this result' }).click();
    const events = await journal(await forkOf(page));
    expect(events).toContainEqual(
      expect.objectContaining({
        type: 'doubt.resolved',
        resolution: { type: 'happened', output: { refunded: 0 } },
      }),
    );
    expect(refunded).toHaveLength(before);
  });

  inAll('with an edited reply, held at its start', async () => {
    const page = await visit('Edit reply…');
    await page.getByLabel('Hold the fork at its start').check();
    await page.getByLabel('Text of the reply').fill('It is paid.');
    await page.getByRole('button', { name: 'Fork with this reply' }).click();
    const events = await journal(await forkOf(page));
    expect(events.at(-1)).toMatchObject({ type: 'turn.edited', text: 'It is paid.' });
    await expect.poll(() => page.getByRole('button', { name: 'Continue' }).count()).toBeGreaterThan(0);
  });

  inAll('with the tools replayed: it asks, and the journal names the entry of the result', async () => {
    const before = refunded.length;
    const { page } = await visitAt(1);
    await page.getByRole('button', { name: /Fork here/ }).click();
    await page.getByLabel(/Replay tools/).check();
    await page.getByRole('button', { name: 'Fork without a change' }).click();
    const fork = await forkOf(page);
    await decideWith(page.getByRole('button', { name: /^Approve/ }).first());
    await expect.poll(async () => (await store.get(fork))?.status, { timeout: 20_000 }).toBe('finished');
    await page.goto(`${desk.url}/runs/${fork}?tab=journal`);
    await expect.poll(() => page.locator('main').innerText()).toContain(`of ${run.id}`);
    const settled = (await journal(fork)).find(({ type }) => type === 'tool.settled');
    expect(settled).toMatchObject({ played: { runId: run.id } });
    expect(refunded).toHaveLength(before);
  });

  inAll('on another model, with tools replayed, and the comparison shows both models', async () => {
    const before = refunded.length;
    const { page } = await visitAt(5);
    await page.getByRole('button', { name: /Fork here/ }).click();
    await page.getByLabel('Model').selectOption('scripted:other.json');
    await page.getByLabel(/Replay tools/).check();
    await page.getByRole('button', { name: 'Fork without a change' }).click();
    const fork = await forkOf(page);
    const waiting = await shop.open(fork);
    const [first] = await journal(fork);
    expect(first).toMatchObject({ config: { forkModel: { provider: 'scripted', model: 'other.json' } } });
    const settled = await waiting.settled();
    if (settled.status === 'waiting')
      for (const call of settled.approvals) await waiting.approve(call.callId);
    await waiting.settled();
    expect((await journal(fork)).findLast(({ type }) => type === 'turn.completed')).toMatchObject({
      model: 'other.json',
      text: 'Told by another.',
    });
    expect(refunded).toHaveLength(before);
    await page.goto(`${desk.url}/compare/${run.id}..${fork}`);
    const models = page.getByRole('row').filter({ has: page.getByRole('rowheader', { name: 'Model' }) });
    await expect.poll(() => models.innerText()).toContain('other.json');
    await expect.poll(() => models.innerText()).toContain('differs');
  });

  inAll('refuses a message to a run that has ended, and says where to fork', async () => {
    const page = await visit('Add a message…');
    await page.getByLabel('Message to the fork').fill('More, please.');
    await page.getByRole('button', { name: 'Fork with this message' }).click();
    await expect.poll(() => page.getByText(/Fork it at entry \d+/).count()).toBe(1);
  });

  inAll('and saves a picture of a decision: one SVG file that needs nothing else', async () => {
    const { page } = await visitAt(5);
    const waiting = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Picture' }).click();
    const download = await waiting;
    expect(download.suggestedFilename()).toBe(`${run.id}-5.svg`);
    const svg = await readFile(await download.path(), 'utf8');
    expect(svg).toContain(`${run.id}, entry 5`);
    expect(svg).toContain('interruptForApproval');
    expect(svg).toContain('awaitingApproval');
    expect(svg).not.toMatch(/href=|url\("?http|<script|class=|Pay A-1/);
    await page.setContent(svg);
    await expect.poll(() => page.locator('svg svg path').count()).toBeGreaterThan(2);
  });

  inAll('and saves the picture as a PNG of twice the size, in the colours of the page', async () => {
    const found: { size: number[]; corner: string; colors: number }[] = [];
    for (const colorScheme of ['light', 'dark'] as const) {
      const { page, problems } = await visitAt(5, { colorScheme });
      const waiting = page.waitForEvent('download');
      await page.getByRole('button', { name: 'PNG', exact: true }).click();
      const download = await waiting;
      expect(download.suggestedFilename()).toBe(`${run.id}-5.png`);
      const png = await readFile(await download.path());
      expect(problems).toEqual([]);
      await page.goto('about:blank');
      found.push(await page.evaluate(inspectImage(png)));
    }
    const [light, dark] = found;
    expect(light?.size[0]).toBe(1440);
    expect(light?.size[1]).toBeGreaterThan(600);
    expect(light?.colors).toBeGreaterThan(20);
    expect(dark?.size).toEqual(light?.size);
    expect(dark?.corner).not.toBe(light?.corner);
  });
});
