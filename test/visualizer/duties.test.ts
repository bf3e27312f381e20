import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, memory, tool } from '../../agent/index.ts';
import { CHROMIUM, type WatchedPage } from '../support/visualizer/browser.ts';
import { servePages } from '../support/visualizer/visits.ts';

const TOKENS = {
  anna: { token: 'the-token-of-anna-000000', role: 'approver' as const, groups: ['finance'] },
  carl: { token: 'the-token-of-carl-000000', role: 'approver' as const, groups: ['sales'] },
};

describe.skipIf(CHROMIUM === undefined)('a call of which two people in a group decide, on the page', () => {
  const store = memory();
  const pays = (name: string, by: object) =>
    createAgent({
      name,
      store,
      tools: [
        tool({
          name,
          description: 'Pays.',
          input: z.object({}),
          approval: () => ({ required: true, ...by }),
          run: () => 'paid',
        }),
      ],
      model: scripted([{ toolCalls: [{ name, arguments: {} }] }, { text: 'Done.' }]),
    });
  const payout = pays('payout', { by: 'finance', quorum: 2 });
  const gift = pays('gift', { by: 'sales' });
  const desk = servePages([payout, gift], { token: 'the-token-of-boss-000000', tokens: TOKENS });

  test('comes first for those who may decide, and has no buttons for others, who read why', async () => {
    const run = await desk.startAtRest('payout', 'Pay Ada.');
    await desk.startAtRest('gift', 'A gift for Ada.');

    const anna = await desk.visitWith(TOKENS.anna.token, '/inbox');
    const rows = (one: WatchedPage) => one.page.locator('.inbox-row').allInnerTexts();
    await expect.poll(() => rows(anna)).toHaveLength(2);
    expect((await rows(anna))[0]).toContain('needs the approvals of 2 people in the group finance');
    expect((await rows(anna))[1]).toContain('for others · needs the decision of a person in the group sales');
    const approve = (one: WatchedPage) => one.page.getByRole('button', { name: 'Approve', exact: true });
    await approve(anna).waitFor();
    await expect.poll(() => anna.page.getByText('Also for later calls').count()).toBe(0);

    const carl = await desk.visitWith(TOKENS.carl.token, `/runs/${run.id}`);
    await carl.page.getByText('You cannot decide this: carl is in none of the groups.').first().waitFor();
    await expect.poll(() => approve(carl).count()).toBe(0);

    await run.approve('call_0_0', { as: { name: 'anna', groups: ['finance'] } });
    await anna.page.getByText('approved by anna, 1 of 2').first().waitFor();
    await carl.page.getByText('Approved by anna, 1 of 2').first().waitFor();
    await anna.page.goto(`${desk.url}/runs/${run.id}`);
    await anna.page.getByText('You have approved it.').waitFor();
    await expect.poll(() => approve(anna).count()).toBe(0);
    await anna.page.getByRole('button', { name: 'Reject…' }).waitFor();
    expect([...anna.problems, ...carl.problems].filter(one => !/401/.test(one))).toEqual([]);
  });
});
