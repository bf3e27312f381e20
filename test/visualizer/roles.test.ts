import { describe, expect, test } from 'vitest';
import { sampled } from '../support/sample.ts';
import { CHROMIUM } from '../support/visualizer/browser.ts';
import { makeDemoAgents } from '../support/visualizer/demo-agents.ts';
import { servePages } from '../support/visualizer/visits.ts';

const TOKENS = {
  boss: { token: 'the-token-of-boss-000000', role: 'operator' },
  paul: { token: 'the-token-of-paul-000000', role: 'approver' },
  vera: { token: 'the-token-of-vera-000000', role: 'viewer' },
} as const;

describe.skipIf(CHROMIUM === undefined)('the page for a token of each role', () => {
  const desk = servePages(makeDemoAgents().agents, {
    token: TOKENS.boss.token,
    tokens: { paul: TOKENS.paul, vera: TOKENS.vera },
  });

  test.each(
    sampled(
      [
        ['viewer', TOKENS.vera.token, { decides: false, steers: false }],
        ['approver', TOKENS.paul.token, { decides: true, steers: false }],
        ['operator', TOKENS.boss.token, { decides: true, steers: true }],
      ] as const,
      1,
    ),
  )('%s', async (_, token, { decides, steers }) => {
    const run = await desk.startAtRest('refunds', 'Pay Ada back.');
    const { page } = await desk.visitWith(token, `/runs/${run.id}`);
    await page.locator('#state-resting-awaitingApproval.current').waitFor();
    await page.getByRole('heading', { name: 'refund needs your approval' }).waitFor();
    const offered = async (name: string): Promise<boolean> =>
      (await page.getByRole('button', { name, exact: true }).count()) > 0;
    await expect.poll(() => offered('Approve')).toBe(decides);
    await expect.poll(() => offered('Reject…')).toBe(decides);
    for (const name of ['Pause', 'Cancel run', 'Send'])
      await expect.poll(() => offered(name), { message: name }).toBe(steers);
    await expect.poll(() => page.getByRole('button', { name: /Fork here/ }).count()).toBe(steers ? 1 : 0);
    await page.goto(`${desk.url}/inbox`);
    await page.getByText('Pay Ada back.').first().waitFor();
    await expect.poll(() => offered('Approve')).toBe(decides);
    await page.goto(`${desk.url}/runs`);
    await page.getByText('Pay Ada back.').first().waitFor();
    await expect.poll(() => offered('New run')).toBe(steers);
    await run.cancel();
  });
});
