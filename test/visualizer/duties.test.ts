import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, memory, tool } from '../../agent/index.ts';
import { CHROMIUM, closePages, sharedChromium, WatchedPage } from '../support/visualizer/browser.ts';
import { ServedRuns } from '../support/visualizer/served-runs.ts';

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
  let browser: Browser;
  let api: ServedRuns;

  beforeAll(async () => {
    [browser, api] = await Promise.all([
      sharedChromium(),
      ServedRuns.listen([payout, gift], { token: 'the-token-of-boss-000000', tokens: TOKENS }),
    ]);
  });
  afterAll(async () => {
    await closePages(browser);
    await api.close();
  });

  async function signIn(token: string, path: string): Promise<WatchedPage> {
    const watched = await WatchedPage.open(browser, `${api.url}${path}`);
    await watched.page.getByLabel('Token').fill(token);
    await watched.page.getByRole('button', { name: 'Sign in' }).click();
    return watched;
  }

  test('comes first for those who may decide, and has no buttons for others, who read why', async () => {
    const run = await api.start('payout', 'Pay Ada.');
    await run.settled();
    await (await api.start('gift', 'A gift for Ada.')).settled();

    const anna = await signIn(TOKENS.anna.token, '/inbox');
    const rows = (one: WatchedPage) => one.page.locator('.inbox-row').allInnerTexts();
    await expect.poll(() => rows(anna)).toHaveLength(2);
    expect((await rows(anna))[0]).toContain('needs the approvals of 2 people in the group finance');
    expect((await rows(anna))[1]).toContain('for others · needs the decision of a person in the group sales');
    const approve = (one: WatchedPage) => one.page.getByRole('button', { name: 'Approve', exact: true });
    await approve(anna).waitFor();
    await expect.poll(() => anna.page.getByText('Also for later calls').count()).toBe(0);

    const carl = await signIn(TOKENS.carl.token, `/runs/${run.id}`);
    await carl.page.getByText('You cannot decide this: carl is in none of the groups.').first().waitFor();
    await expect.poll(() => approve(carl).count()).toBe(0);

    await run.approve('call_0_0', { as: { name: 'anna', groups: ['finance'] } });
    await anna.page.getByText('approved by anna, 1 of 2').first().waitFor();
    await carl.page.getByText('Approved by anna, 1 of 2').first().waitFor();
    await anna.page.goto(`${api.url}/runs/${run.id}`);
    await anna.page.getByText('You have approved it.').waitFor();
    await expect.poll(() => approve(anna).count()).toBe(0);
    await anna.page.getByRole('button', { name: 'Reject…' }).waitFor();
    expect([...anna.problems, ...carl.problems].filter(one => !/401/.test(one))).toEqual([]);
    await Promise.all([anna.close(), carl.close()]);
  });
});
