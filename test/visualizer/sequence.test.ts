import { beforeAll, describe, expect, test } from 'vitest';
import { type Agent, memory, type Run } from '../../agent/index.ts';
import { inAll } from '../support/sample.ts';
import { CHROMIUM, type Look, type WatchedPage } from '../support/visualizer/browser.ts';
import { makeFamily } from '../support/visualizer/family.ts';
import { servePages } from '../support/visualizer/visits.ts';

const HOSTILE = '<img src=x onerror="document.title=1">\u202ehidden';

/** A run of `shop` that has ended: Grace approved the refund of its sub-agent's sub-agent. */
async function settleFamily(run: Run, agents: readonly Agent[]) {
  const settled = await run.settled();
  if (settled.status !== 'waiting') throw new Error(`Expected a run that waits; it is ${settled.status}.`);
  const [open] = settled.open;
  if (open?.kind !== 'approval') throw new Error('Expected an approval of the refund.');
  const payer = agents.find(({ name }) => name === 'payer');
  await (await payer?.open(open.runId))?.approve(open.callId, { by: 'Grace' });
  await run.settled();
  return { path: `/runs/${run.id}`, payerRun: open.runId };
}

describe.skipIf(CHROMIUM === undefined)('the sequence of a run', () => {
  const agents = makeFamily(memory());
  const desk = servePages(agents);
  let family: { path: string; payerRun: string };
  beforeAll(async () => {
    family = await settleFamily(await desk.start('shop', HOSTILE), agents);
  });

  async function visit(look: Look): Promise<WatchedPage> {
    const watched = await desk.visit(`${family.path}?tab=sequence`, look);
    await watched.page.getByText('payer asks Grace').waitFor();
    return watched;
  }

  test('it says who asked whom: the person, the agent, its model, tools, sub-agents and who decided', async () => {
    const watched = await visit({ height: 1400 });
    const { page } = watched;
    const said = await page.getByRole('region', { name: 'Sequence' }).getByRole('listitem').allTextContents();
    expect(said.filter(line => !line.includes('scripted:script'))).toEqual([
      'person writes to shop: <img src=x onerror="document.title=1">\\u{202e}hidden',
      'shop asks desk: { "input": "What about A-1001?" }',
      'desk asks look_up: { "order": "A-1001" }',
      'look_up answers desk: broken',
      'desk asks payer: { "input": "Pay A-1001 back." }',
      'payer asks Grace: approve refund of $42.00 for A-1001',
      'Grace answers payer: refund approved by Grace',
      'payer asks refund: { "orderId": "A-1001", "cents": 4200 }',
      'refund answers payer: paid',
      'payer answers desk: Paid.',
      'desk answers shop: It was paid.',
      'shop answers person: Ada has her money.',
    ]);
    expect(said.filter(line => line.startsWith('payer gets from scripted:script'))).toHaveLength(2);
    await expect
      .poll(() => page.locator('.lanes li').allInnerTexts())
      .toEqual(['person', 'Grace', 'shop', 'scripted:script', 'look_up', 'refund', 'desk', 'payer']);
    expect(watched.problems).toEqual([]);
  });

  test('a press on an arrow moves the cursor to its entry, or opens the run it is of; the cursor marks its arrow', async () => {
    const { page } = await visit({ height: 1400 });
    await page.getByRole('button', { name: 'shop asks desk' }).press('Enter');
    const marked = page.locator('.sent[aria-current]');
    await expect.poll(() => marked.textContent()).toContain('shop asks desk');
    const cursor = page.getByRole('slider', { name: 'Entry' });
    await page.getByRole('heading', { name: /tool.suspended/ }).waitFor();
    await cursor.press('End');
    await page.locator('.sent[aria-current]', { hasText: 'shop answers person' }).waitFor();
    await page.getByRole('link', { name: 'Grace answers payer' }).click();
    await page.getByRole('heading', { name: /approval.decided/ }).waitFor();
    expect(new URL(page.url()).pathname).toBe(`/runs/${family.payerRun}`);
    await page.locator('.sent[aria-current]', { hasText: 'Grace answers payer' }).waitFor();
  });

  inAll.each([768, 390])('at %i px, it has lanes if it is no phone, which gets sentences', async width => {
    const { page } = await visit({ width, height: 900 });
    await expect.poll(() => page.locator('.lanes').isVisible()).toBe(width >= 720);
  });
});
