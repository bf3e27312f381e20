import { describe, expect, test } from 'vitest';
import { sampled } from '../support/sample.ts';
import { CHROMIUM, decideWith } from '../support/visualizer/browser.ts';
import { serveInbox } from '../support/visualizer/inbox-desk.ts';

describe.skipIf(CHROMIUM === undefined)('the inbox below 900 px', () => {
  const desk = serveInbox();

  test.each(
    sampled(
      [
        { width: 360, height: 640 },
        { width: 390, height: 844 },
        { width: 768, height: 600 },
        // As a window of 1,280 by 900 px at 200 %.
        { width: 640, height: 450 },
      ],
      1,
    ),
  )('opens a decision in a screen with an address of its own, $width px wide', async look => {
    await desk.start('single', 'Pay Bob back.');
    const run = await desk.start('parcels', 'Six parcels came back.');
    const { page, watched, rows } = await desk.visit('/inbox', look);
    const row = page.getByRole('link', { name: /parcel 5 of 6/ });
    await row.scrollIntoViewIfNeeded();
    const top = (): Promise<number> => page.evaluate('scrollY');
    const before = await top();
    if (look.height < 500) expect(before).toBeGreaterThan(0);
    await row.click();
    const approve = page.getByRole('button', { name: 'Approve', exact: true });
    await approve.waitFor();
    expect(new URL(page.url()).pathname).toBe(`/inbox/${run.id}/call_0_4`);
    await expect.poll(() => rows.first().isVisible()).toBe(false);
    const box = await approve.boundingBox();
    expect((box?.y ?? 0) + (box?.height ?? 0)).toBeLessThanOrEqual(look.height);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(look.width);
    expect(await watched.findBarriers()).toEqual([]);

    await page.getByRole('main').getByRole('link', { name: 'Inbox' }).click();
    await row.waitFor();
    expect(await top()).toBe(before);
    await row.click();
    await approve.waitFor();
    await page.reload();
    await page.getByText('parcel 5 of 6', { exact: true }).waitFor();
    await decideWith(approve);
    await page.getByText('Approved: refund.').waitFor();
    expect(new URL(page.url()).pathname).toBe('/inbox');
    expect(await desk.decisions(run)).toEqual([{ callId: 'call_0_4', type: 'approve' }]);
    await page.goBack();
    await page.getByText('No longer open').waitFor();
    const parts = page.locator('.missing > *');
    const [head, link] = [await parts.first().boundingBox(), await parts.last().boundingBox()];
    expect((link?.y ?? 0) - (head?.y ?? 0), 'its lines are together').toBeLessThan(120);
  });

  test('selects several once that was asked for', async () => {
    await desk.start('parcels', 'Six parcels came back.');
    const { page, rows } = await desk.visit('/inbox', { width: 390, height: 844 });
    await page.getByRole('button', { name: 'Select' }).click();
    await rows.nth(0).click();
    await rows.nth(5).click();
    await page.getByRole('button', { name: 'Approve 2 ($147.00)' }).waitFor();
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
  });

  test('at the same address, a wide window has the decision beside the list', async () => {
    const run = await desk.start('parcels', 'Six parcels came back.');
    const { page, rows } = await desk.visit(`/inbox/${run.id}/call_0_3`);
    await expect.poll(() => rows.count()).toBe(6);
    await page.getByRole('region', { name: 'Input of refund' }).getByText('parcel 4 of 6').waitFor();
    await expect.poll(() => rows.nth(3).getAttribute('aria-current')).toBe('true');
    await page.keyboard.press('j');
    await expect.poll(() => new URL(page.url()).pathname).toBe(`/inbox/${run.id}/call_0_4`);
  });
});
