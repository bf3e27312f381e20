import type { Locator, Page } from 'playwright-core';
import { afterEach, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { type Agent, createAgent, memory, type Run, rule, type Tool, tool } from '../../agent/index.ts';
import { EngineError } from '../../protocol/error.ts';
import { calls, makeGate, makeTool } from '../support/engine/agents.ts';
import { CHROMIUM, decideWith, type WatchedPage } from '../support/visualizer/browser.ts';
import { servePages } from '../support/visualizer/visits.ts';

const store = memory();
const account = { isSignedIn: false };
const work = makeGate<string>();

const used = (inputTokens: number) => ({ usage: { inputTokens, outputTokens: 400 } });

const booking = tool({
  name: 'book',
  description: 'Books a table.',
  input: z.object({}),
  prepare: ({ ask }) =>
    ask({
      key: 'table',
      message: 'Which table?',
      schema: z.object({ people: z.int(), area: z.enum(['garden', 'hall']), day: z.iso.date() }),
    }),
  run: (_, { prepared }) => prepared,
});

/** A tool server at which a person must sign in first. */
const crm = {
  name: 'crm',
  async connect(): Promise<readonly Tool[]> {
    if (account.isSignedIn) return [makeTool('crm_find')];
    throw new EngineError('sign-in-needed', 'Sign in at "crm".', { server: 'crm', url: 'https://crm.test/' });
  },
  async close() {},
};

const billing = createAgent({
  name: 'billing',
  model: scripted([{}, calls(['transfer_to_front_desk', { note: 'This is for sales.' }])]),
});
const clerk = createAgent({
  name: 'clerk',
  model: scripted([{}, { text: 'You owe 5.' }, { text: 'Since May.' }]),
});

const agents = {
  tables: createAgent({
    name: 'tables',
    store,
    tools: [booking as Tool],
    model: scripted([calls('book'), { text: 'Booked.' }]),
  }),
  finder: createAgent({
    name: 'finder',
    store,
    tools: [crm],
    model: scripted([calls('crm_find'), { text: 'Found.' }]),
  }),
  sales: createAgent({
    name: 'sales',
    store,
    guardrails: { answer: () => ({ type: 'ask' as const, reason: 'it names a price' }) },
    model: scripted([{ text: 'It costs 5.' }, { text: 'It costs 50.' }]),
  }),
  desk: createAgent({
    name: 'front_desk',
    store,
    model: scripted([
      { text: 'Billing knows that.', ...calls('transfer_to_billing') },
      { text: 'Sales will call you.' },
    ]),
    handoffs: [billing],
  }),
  counter: createAgent({
    name: 'counter',
    store,
    model: scripted([calls('transfer_to_clerk')]),
    handoffs: [clerk],
  }),
  ruled: createAgent({
    name: 'ruled',
    store,
    tools: ['mail', 'pay', 'look'].map(name => makeTool(name)),
    rules: [
      rule({ name: 'no mail', when: ({ call }) => call.name === 'mail', reason: 'mail is off today' }),
      rule({ name: 'ask to pay', when: ({ call }) => call.name === 'pay', then: 'ask' }),
      rule({ name: 'no look', when: ({ call }) => call.name === 'look', mode: 'shadow' }),
    ],
    model: scripted([calls('mail', 'pay', 'look'), { text: 'Done.' }]),
  }),
  compacting: createAgent({
    name: 'compacting',
    store,
    tools: [makeTool('look', { sideEffect: 'none' })],
    model: scripted([
      { text: 'First look.', ...calls('look'), ...used(1_000) },
      { text: 'Second look.', ...calls('look'), ...used(3_000) },
      { text: 'Seen.', ...used(600) },
    ]),
    compaction: { at: 2_000, summarize: () => 'It looked twice.' },
  }),
  chat: createAgent({
    name: 'chat',
    store,
    model: scripted([{ text: 'One.' }, { text: 'Two.' }, { text: 'Three.' }]),
  }),
  studio: createAgent({
    name: 'studio',
    store,
    tools: [makeTool('render', { background: true, run: () => work.promise })],
    model: scripted([calls('render'), { text: 'Started.' }, { text: 'Ready.' }]),
  }),
} satisfies Record<string, Agent>;

describe.skipIf(CHROMIUM === undefined)('the conversation of a run has a mark for', () => {
  const desk = servePages(Object.values(agents));
  let watched: WatchedPage;
  let page: Page;
  const runs: Run[] = [];
  afterEach(async () => {
    expect(watched.problems).toEqual([]);
    expect(await watched.findBarriers()).toEqual([]);
    await Promise.all(runs.splice(0).map(run => run.cancel()));
  });

  async function visit(run: Run): Promise<void> {
    runs.push(run);
    watched = await desk.visit(`/runs/${run.id}`);
    ({ page } = watched);
    page.setDefaultTimeout(10_000);
  }

  async function rest(agent: Agent): Promise<Run> {
    const run = await agent.start('Go on.');
    await run.settled();
    await visit(run);
    return run;
  }

  const said = (text: string | RegExp): Locator =>
    page.getByRole('region', { name: 'Conversation' }).getByText(text);
  const card = (name: string): Locator => page.getByRole('article', { name: `Call of ${name}` });

  test('a question and its answer, whose form has a field of its kind for each member', async () => {
    const run = await rest(agents.tables);
    await card('book').getByText('Asked table: Which table?').waitFor();
    const form = page.getByRole('group', { name: 'Which table?' });
    await form.getByRole('spinbutton', { name: 'people' }).fill('4');
    await form.getByRole('combobox', { name: 'area' }).selectOption('garden');
    await form.getByLabel('day').fill('2026-05-04');
    await expect.poll(() => form.getByLabel('day').getAttribute('type')).toBe('date');
    await decideWith(page.getByRole('button', { name: 'Answer', exact: true }));
    await card('book')
      .getByText(/Answered table: .*"people":\s*4/)
      .waitFor();
    expect(await run.settled()).toMatchObject({
      results: [{ output: { people: 4, area: 'garden', day: '2026-05-04' } }],
    });
  });

  test('a sign-in that a run waits for, and who signed in', async () => {
    const run = await rest(agents.finder);
    await said('A person must sign in at crm').waitFor();
    const bar = page.getByRole('region', { name: 'Sign-ins' });
    await bar.getByRole('button', { name: 'Sign in at crm' }).waitFor();
    account.isSignedIn = true;
    await run.signedIn('crm', { by: 'Ann' });
    await said('Signed in at crm by Ann').waitFor();
    await expect.poll(() => bar.count()).toBe(0);
  });

  test('a review, with who sent the answer back and who approved it', async () => {
    const run = await rest(agents.sales);
    await said('The answer waits for a review').waitFor();
    const review = async () => {
      const settled = await run.settled();
      const [open] = settled.status === 'waiting' ? settled.reviews : [];
      return open?.callId ?? '';
    };
    await run.reject(await review(), { by: 'Ada', reason: 'Say it in full.' });
    await said('The answer was sent back by Ada').waitFor();
    await expect.poll(() => said('The answer was blocked').count()).toBe(0);
    await run.approve(await review(), { by: 'Grace' });
    await said('The answer was approved by Grace').waitFor();
  });

  test('a hand-off there and back, each with why, and one of a later message', async () => {
    await rest(agents.desk);
    await said('Hand-off from front_desk to billing: Billing knows that.').waitFor();
    await said(
      'Hand-off from billing to front_desk: billing handed the conversation back: This is for sales.',
    ).waitFor();
    await card('transfer_to_billing').getByRole('link').click();
    await said('Hand-off from billing to front_desk: This is for sales.').waitFor();
    const first = await agents.counter.start('I was charged twice.');
    await first.settled();
    const next = await agents.counter.start('Since when?', { continues: first.id });
    await next.settled();
    await page.goto(`${desk.url}/runs/${next.id}`);
    await said('Hand-off from counter to clerk: it has the conversation').waitFor();
  });

  test('what a rule says of a call: refused, asked about, or only recorded', async () => {
    const run = await rest(agents.ruled);
    await card('mail').getByText('blocked by the rule "no mail"').waitFor();
    await card('pay').getByText('needs an approval for the rule "ask to pay"').waitFor();
    await card('look').getByText('would be blocked by the rule "no look"').waitFor();
    const settled = await run.settled();
    const [open] = settled.status === 'waiting' ? settled.approvals : [];
    await run.approve(open?.callId ?? '', { by: 'Grace' });
    await card('pay')
      .getByText(/Approved by Grace/)
      .waitFor();
  });

  test('a compaction, with what it replaced and what it saved', async () => {
    const run = await rest(agents.compacting);
    const replaced = 'Transcript compacted: a summary replaces 3 items for the model; 3,400 tokens before it';
    const mark = said(`${replaced}, 600 in the next request`);
    await mark.click();
    await said('It looked twice.').waitFor();
    const entries = await store.read(run.id);
    const compacted = entries.find(({ event }) => event.type === 'transcript.compacted');
    await page.goto(`${desk.url}/runs/${run.id}?at=${compacted?.seq}`);
    await said(replaced).waitFor();
    await expect.poll(() => mark.count(), { message: 'the next request is not there yet' }).toBe(0);
  });

  test('a thread: its name, the run before and the run after', async () => {
    const options = { thread: 'c1', labels: { user: 'ada' } };
    const made: Run[] = [];
    for (const text of ['First', 'Second', 'Third']) {
      const run = await agents.chat.start(text, options);
      await run.settled();
      made.push(run);
    }
    await visit(made[1] as Run);
    await page.getByText('run 2 of thread c1').waitFor();
    const thread = page.getByRole('link', { name: 'c1', exact: true });
    await expect.poll(() => thread.getAttribute('href')).toBe('/threads/c1?label=user%3Dada');
    await page.getByRole('link', { name: 'next run' }).click();
    await page.getByText('run 3 of thread c1').waitFor();
    await expect.poll(() => page.getByRole('link', { name: 'next run' }).count()).toBe(0);
    await page.getByRole('link', { name: made[1]?.id ?? '' }).click();
    await page.getByText('run 2 of thread c1').waitFor();
  });

  test('work in the background while it goes on, and when its outcome arrived', async () => {
    await visit(await agents.studio.start('Go on.'));
    await card('render').getByText('in the background', { exact: true }).waitFor();
    work.open('rendered');
    await card('render')
      .getByText(/The outcome of its work arrived at \d/)
      .waitFor();
    await card('render').getByText('done', { exact: true }).waitFor();
    await said('Outcome of the work of render').waitFor();
  });
});
