import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, memory, type Run, type Store, tool } from '../../agent/index.ts';
import { inAll } from '../support/sample.ts';
import { CHROMIUM, decideWith } from '../support/visualizer/browser.ts';
import { makeDemoAgents } from '../support/visualizer/demo-agents.ts';
import { makeSurvey } from '../support/visualizer/long-run.ts';
import { type Desk, servePages } from '../support/visualizer/visits.ts';

describe.skipIf(CHROMIUM === undefined)('the debugger', () => {
  const store = memory();
  const demo = makeDemoAgents(store);
  const writing = makeWriters(store);
  const agents = [...demo.agents, ...writing.agents];
  const desk = servePages(agents);

  const entriesOf = async (run: Run): Promise<string[]> =>
    (await store.read(run.id)).map(({ event }) => event.type);

  test('a command that never reached the server is reported as not taken, and can be sent again', async () => {
    const run = await desk.startAtRest('refunds', 'Go on.');
    const { page } = await desk.visit(`/runs/${run.id}`);
    await page.route('**/approve', route => route.abort(), { times: 1 });
    await decideWith(page.getByRole('button', { name: 'Approve' }));
    await page.getByText('the journal does not have this command. Nothing was changed; try again.').waitFor();
    await decideWith(page.getByRole('button', { name: 'Approve' }));
    await page.locator('#state-finished.current').waitFor();
  });

  inAll('an answer shows what the guardrails made of it, and on demand the words of the model', async () => {
    const run = await desk.startAtRest('librarian', 'Go on.');
    const { page, problems } = await desk.visit(`/runs/${run.id}`);
    const reply = page.locator('.reply').last();
    await reply.getByText('Tea is picked in spring [1].').waitFor();
    await expect.poll(() => reply.innerText()).not.toContain('[doc:');
    await reply.getByText('before the guardrails').click();
    await reply.getByText('Tea is picked in spring [doc:tea].').waitFor();
    expect(problems).toEqual([]);
  });

  test('the crash of a process is shown where it was, with what was on disk; playing back executes nothing', async () => {
    const run = await killDuringPayment(store, writing, desk);
    const journal = await entriesOf(run);
    const watched = await desk.visit(`/runs/${run.id}`);
    const { page } = watched;
    const sent: string[] = [];
    page.on('request', request => sent.push(request.method()));
    const crash = page.locator('.error-block', { hasText: 'died or fell silent' });
    await crash.getByText('died or fell silent').waitFor();
    await expect
      .poll(() => crash.innerText())
      .toMatch(/On disk: entry \d+, executingTools\. Started, without a result: pay\./);
    await expect.poll(() => crash.innerText()).toContain('pay was found started and without a result');
    await page.locator('.crash-mark').waitFor();

    const slider = page.getByRole('slider', { name: 'Entry' });
    const at = async () => Number(await slider.getAttribute('aria-valuenow'));
    await slider.press('Home');
    expect(await at()).toBe(1);
    for (let entry = 1; entry < journal.length; entry += 1) await slider.press('ArrowRight');
    expect(await at()).toBe(journal.length);
    for (let entry = 1; entry < journal.length; entry += 1) await slider.press('ArrowLeft');
    expect(await at()).toBe(1);
    await slider.press('PageDown');
    expect(await at()).toBe(Math.min(21, journal.length));
    await slider.press('PageUp');
    expect(await at()).toBe(1);
    await page.getByRole('button', { name: 'Play' }).click();
    await expect.poll(at).toBeGreaterThan(2);
    await slider.press('End');
    await page.locator('#state-resting-inDoubt.current').waitFor();

    expect(new Set(sent)).toEqual(new Set(['GET']));
    expect(writing.payments).toBe(1);
    expect(await entriesOf(run)).toEqual(journal);
    expect(watched.problems).toEqual([]);
  });

  inAll(
    'eight tabs of one browser are live at once, share one event stream, and see a decision of the first',
    async () => {
      const context = await desk.browser.newContext();
      let streams = 0;
      context.on('request', request => {
        if (new URL(request.url()).pathname === '/events') streams += 1;
      });
      context.on('requestfinished', request => {
        if (new URL(request.url()).pathname === '/events') streams -= 1;
      });
      context.on('requestfailed', request => {
        if (new URL(request.url()).pathname === '/events') streams -= 1;
      });
      const run = await desk.startAtRest('refunds', 'Go on.');
      const pages = await Promise.all(Array.from({ length: 8 }, () => context.newPage()));
      for (const page of pages) await page.goto(`${desk.url}/runs/${run.id}`);
      for (const page of pages) await page.locator('.connection[data-is="live"]').waitFor();
      expect(streams).toBe(1);
      for (const page of pages.slice(0, 1)) await decideWith(page.getByRole('button', { name: 'Approve' }));
      for (const page of pages) await page.locator('#state-finished.current').waitFor();
      await pages[0]?.close();
      const second = await desk.startAtRest('refunds', 'Go on.');
      await pages.at(-1)?.goto(`${desk.url}/runs/${second.id}`);
      await pages.at(-1)?.locator('.connection[data-is="live"]').waitFor();
      await second.approve('call_1_0', { by: 'Grace' });
      await pages.at(-1)?.locator('#state-finished.current').waitFor();
      await context.close();
    },
  );

  inAll('an entry that was chosen before it was loaded is shown once it is', async () => {
    const run = await makeSurvey(store, 600).start('Measure all points.');
    await run.settled();
    const watched = await desk.visit('/agents');
    const { page, problems } = watched;
    const older = Promise.withResolvers<void>();
    await page.route('**/entries?after=0&*', async route => {
      await older.promise;
      await route.continue();
    });
    await page.goto(`${desk.url}/runs/${run.id}`);
    await page.locator('.reply').getByText('All points are measured.').waitFor();
    const slider = page.getByRole('slider', { name: 'Entry' });
    await slider.press('Home');
    await expect.poll(() => slider.getAttribute('aria-valuenow')).toBe('1');
    older.resolve();
    await page.getByRole('heading', { name: /^Entry 1 / }).waitFor();
    expect(problems).toEqual([]);
  });

  inAll('10,000 entries: few nodes, every entry within reach', async () => {
    const survey = makeSurvey(store, 10_000);
    const run = await survey.start('Measure all points.');
    await run.settled();
    const count = (await store.read(run.id)).length;
    expect(count).toBeGreaterThanOrEqual(10_000);
    const { page, problems } = await desk.visit(`/runs/${run.id}`);
    await page.locator('.reply').getByText('All points are measured.').waitFor();
    const nodes = () => page.evaluate('document.querySelectorAll("*").length');
    const slider = page.getByRole('slider', { name: 'Entry' });
    await slider.press('Home');
    await page.getByRole('heading', { name: /^Entry 1 / }).waitFor();
    expect(await nodes()).toBeLessThan(5_000);
    for (const tab of ['Waterfall', /^Journal/, 'Tree', 'Conversation']) {
      await page.getByRole('tab', { name: tab }).click();
      for (const key of ['End', 'PageUp', 'Home', 'PageDown']) await slider.press(key);
      expect(await nodes(), String(tab)).toBeLessThan(5_000);
    }
    await expect.poll(() => slider.getAttribute('aria-valuemax')).toBe(String(count));
    expect(problems).toEqual([]);
  });
});

type Writers = { agents: ReturnType<typeof makeRest>; payments: number };

function makeRest(store: Store, pay: () => Promise<never>) {
  const payTool = tool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ cents: z.number() }),
    run: pay,
  });
  return [
    createAgent({
      name: 'librarian',
      store,
      model: scripted([{ text: 'Tea is picked in spring [doc:tea].' }]),
      guardrails: { answer: text => ({ type: 'replace', value: text.replace('[doc:tea]', '[1]') }) },
    }),
    createAgent({
      name: 'payer',
      store,
      tools: [payTool],
      model: scripted([{ toolCalls: [{ name: 'pay', arguments: { cents: 9900 } }] }, { text: 'Paid.' }]),
    }),
  ];
}

/** Agents for what the demo agents do not show. A payment is counted, and its reply never comes. */
function makeWriters(store: Store): Writers {
  const writers: Writers = {
    payments: 0,
    agents: makeRest(store, () => {
      writers.payments += 1;
      return new Promise(() => {});
    }),
  };
  return writers;
}

/** Starts a payment, declares its process dead during the call, and lets the server take the run over. */
async function killDuringPayment(store: Store, writers: Writers, desk: Desk): Promise<Run> {
  const run = await desk.start('payer', 'Pay 99 dollars.');
  await expect.poll(() => writers.payments).toBe(1);
  const owner = { id: 'next', host: 'host', pid: 7, startedAt: '1' };
  const claim = await store.claim(run.id, { owner, now: Date.now(), leaseMs: 1000, isDead: () => true });
  if (claim.type !== 'claimed') throw new Error(`Expected the claim to succeed, got ${claim.type}.`);
  await store.release(run.id, claim.epoch);
  const response = await fetch(`${desk.url}/runs/${run.id}/resume`, { method: 'POST' });
  expect(response.status).toBe(200);
  await run.settled();
  return run;
}
