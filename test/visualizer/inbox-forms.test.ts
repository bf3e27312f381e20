import { describe, expect, test } from 'vitest';
import { CHROMIUM, decideWith } from '../support/visualizer/browser.ts';
import { serveInbox } from '../support/visualizer/inbox-desk.ts';

describe.skipIf(CHROMIUM === undefined)('an edited input', () => {
  const desk = serveInbox();

  test('has fields from the schema of its tool, and JSON in step with them', async () => {
    const run = await desk.start('single', 'Pay Bob back.');
    const { page, watched } = await desk.visit();
    await page.getByRole('button', { name: 'Edit…' }).click();
    const cents = page.getByRole('spinbutton', { name: 'cents' });
    await cents.waitFor();
    expect(await watched.findBarriers()).toEqual([]);
    expect([await cents.getAttribute('type'), await cents.getAttribute('max')]).toEqual(['number', '50000']);
    await page.getByText('What the customer gets, in cents').waitFor();
    await cents.fill('60000');
    await page.getByText('Expected at most 50000.').waitFor();
    const approve = page.getByRole('button', { name: 'Approve with changes' });
    await approve.click();
    await expect
      .poll(() => page.locator('.asked strong').count(), { message: 'what is wrong is not asked' })
      .toBe(0);
    await cents.fill('1999');
    await page.getByLabel('speed').selectOption('express');
    await page.getByLabel('due').fill('2026-12-24');
    await page.getByLabel('notify').selectOption('true');
    await page.getByRole('group', { name: 'address' }).getByLabel('street').fill('High Street');
    await page.getByRole('group', { name: 'address' }).getByLabel('house').fill('12');
    await page.getByLabel('tags').fill('late\nbroken');
    const changes = page.getByRole('list', { name: 'Changes' });
    await changes.getByText('"cents": 1999').waitFor();

    await page.getByRole('tab', { name: 'JSON' }).click();
    const edited = {
      cents: 1999,
      orderId: 'A-1001',
      speed: 'express',
      due: '2026-12-24',
      notify: true,
      address: { street: 'High Street', house: 12 },
      tags: ['late', 'broken'],
    };
    const field = page.getByLabel('Edited input');
    expect(JSON.parse(await field.inputValue())).toEqual(edited);
    await field.fill(JSON.stringify({ ...edited, orderId: 'A-1002' }));
    await page.getByRole('tab', { name: 'Fields' }).click();
    await expect.poll(() => page.getByRole('textbox', { name: 'orderId' }).inputValue()).toBe('A-1002');
    await decideWith(approve);
    await page.getByText('Approved: refund.').waitFor();
    expect(await desk.decisions(run)).toMatchObject([
      { type: 'approve', input: { ...edited, orderId: 'A-1002' } },
    ]);
  });
});
