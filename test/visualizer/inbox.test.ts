import type { Route } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { inAll } from '../support/sample.ts';
import { CHROMIUM, decideWith } from '../support/visualizer/browser.ts';
import { serveInbox } from '../support/visualizer/inbox-desk.ts';

describe.skipIf(CHROMIUM === undefined)('the inbox', () => {
  const desk = serveInbox({ expected: /40[09]| 404 .*\/inbox\// });

  test('has doubts first, then what waits for this person, each by its longest wait; rows say what differs', async () => {
    await desk.start('letters', 'Write to Ada.');
    await desk.start('single', 'Pay Bob back.');
    await desk.start('parcels', 'Six parcels came back.');
    const release = await desk.start('releases', 'Release it.');
    const { page, rows } = await desk.visit();
    const inbox = page.getByRole('listbox', { name: 'Inbox' });
    await expect.poll(() => inbox.getByRole('option').count()).toBe(9);
    await expect.poll(() => inbox.getAttribute('aria-multiselectable')).toBe('true');
    const texts = (await rows.allInnerTexts()).map(text => text.replaceAll(/\s+/g, ' '));
    expect(texts[0]).toMatch(/^in doubt deploy .* 2\.4\.0 Release it\./);
    expect(texts[1]).toMatch(/^approve refund .* no note Pay Bob back\./);
    const parcels = page.getByRole('group', { name: 'Six parcels came back., 6' }).getByRole('option');
    await expect.poll(() => parcels.count()).toBe(6);
    expect(texts[3]).toMatch(/^approve refund .* \$73\.50 · B-2 · parcel 2 of 6/);
    expect(texts[8]).toMatch(/^approve email .* Write to Ada\. for others/);
    await page.getByRole('option', { name: /refund .*parcel 2 of 6 Six parcels came back/ }).waitFor();
    await expect.poll(() => page.locator('.decision h2').innerText()).toBe('deploy');
    await release.cancel();
  });

  test('selects several by keyboard, and approves them once every input was shown in full', async () => {
    const run = await desk.start('parcels', 'Six parcels came back.');
    const { page, watched, rows } = await desk.visit();
    // On a slow machine a key must not act on a row that was left.
    const throttle = await page.context().newCDPSession(page);
    await throttle.send('Emulation.setCPUThrottlingRate', { rate: 4 });
    const isSelected = (): Promise<string> =>
      page.evaluate(
        `[...document.querySelectorAll('[role="option"]')].map(row => (row.ariaSelected === 'true' ? 'x' : '-')).join('')`,
      );
    await rows.nth(0).focus();
    await page.keyboard.press('ArrowDown');
    expect(await isSelected()).toBe('------');
    await page.keyboard.press('Space');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('x');
    expect(await isSelected()).toBe('-xx---');
    await throttle.send('Emulation.setCPUThrottlingRate', { rate: 1 });
    await page.keyboard.press('Shift+ArrowDown');
    await page.keyboard.press('Shift+ArrowDown');
    expect(await isSelected()).toBe('--xxx-');
    await page.getByRole('button', { name: 'Approve 3 ($220.50)' }).waitFor();
    await page.keyboard.press('Control+a');
    expect(await isSelected()).toBe('xxxxxx');
    const approve = page.getByRole('button', { name: 'Approve 6 ($441.00)' });
    await expect.poll(() => page.getByText('7350').count(), { message: 'before the first press' }).toBe(0);
    await approve.click();
    await page.getByText('Approve these 6 calls ($441.00)?').waitFor();
    const shown = await page.getByRole('list', { name: 'Every input in full' }).innerText();
    expect(shown.match(/7350/g)).toHaveLength(6);
    for (const number of [1, 6]) expect(shown).toContain(`parcel ${number} of 6`);
    expect(await watched.findBarriers()).toEqual([]);
    expect(await desk.decisions(run)).toEqual([]);
    await approve.press('Enter');
    await page.getByText('Approved 6.').waitFor();
    expect(await desk.decisions(run)).toHaveLength(6);
    await expect.poll(() => rows.count()).toBe(0);
  });

  test('is filtered and searched by what the address keeps; / goes to the search', async () => {
    await desk.start('parcels', 'Six parcels came back.', { team: 'returns' });
    await desk.start('single', 'Pay Bob back.', { team: 'sales' });
    await desk.start('letters', 'Write to Ada.');
    const { page, rows } = await desk.visit();
    await expect.poll(() => rows.count()).toBe(8);
    await page.getByLabel('Agent').selectOption('letters');
    await expect.poll(() => rows.count()).toBe(1);
    await page.getByLabel('Agent').selectOption('');
    await page.getByLabel('Label').selectOption('team=returns');
    await expect.poll(() => rows.count()).toBe(6);
    await page.getByLabel('Label').selectOption('');
    await page.getByLabel('Tool').selectOption('refund');
    await page.getByLabel('Mine').check();
    await expect.poll(() => rows.count()).toBe(7);
    await page.locator('h1').focus();
    await page.keyboard.press('/');
    await page.keyboard.type('pay BOB');
    await expect.poll(() => rows.count()).toBe(1);
    expect(new URL(page.url()).search).toBe('?tool=refund&mine=true&text=pay+BOB');
    await page.reload();
    await expect.poll(() => rows.count()).toBe(1);
    await expect.poll(() => page.getByLabel('Mine').isChecked()).toBe(true);
    await page.getByLabel('Search the inbox').fill('no such words');
    await page.getByText('No decision matches.').waitFor();
  });

  test('keeps the place of its rows while the pointer is over them', async () => {
    const run = await desk.start('parcels', 'Six parcels came back.');
    const { page, rows } = await desk.visit();
    await rows.nth(2).click();
    const before = await rows.allInnerTexts();
    await run.approve('call_0_1', { by: 'Ada' });
    await desk.start('releases', 'Release it.');
    await page.getByText('1 new').waitFor();
    await page.locator('.inbox-row.is-gone').waitFor();
    const now = await rows.allInnerTexts();
    expect(now.map(text => /parcel \d/.exec(text)?.[0])).toEqual(
      before.map(text => /parcel \d/.exec(text)?.[0]),
    );
    expect(now[1]).toContain('resolved');
    await page.locator('h1').focus();
    await page.mouse.move(900, 300);
    await expect.poll(async () => (await rows.allInnerTexts())[0]).toContain('in doubt');
    await expect.poll(() => page.locator('.inbox-row.is-gone').count()).toBe(0);
    await expect.poll(() => rows.count()).toBe(6);
  });

  test('rejects several with one reason, and says what another person had decided', async () => {
    const run = await desk.start('parcels', 'Six parcels came back.');
    const { page, rows } = await desk.visit();
    await rows.nth(1).click();
    await rows.nth(2).click({ modifiers: ['Control'] });
    await rows.nth(4).locator('.pick').click();
    await page.getByRole('button', { name: 'Reject…' }).click();
    await page.getByLabel('Reason for all').fill('They are empty.');
    const overtake = async (route: Route): Promise<void> => {
      await run.approve('call_0_1', { by: 'Ada' });
      await route.continue();
    };
    await page.route(`**/runs/${run.id}/reject`, overtake, { times: 1 });
    await decideWith(page.getByRole('button', { name: 'Reject 3 ($220.50)' }));
    await page.getByText('Rejected 2 of 3.').waitFor();
    await page.getByText(/refund \$73\.50 · B-2 · parcel 2 of 6: .*Ada/).waitFor();
    expect(await desk.decisions(run)).toMatchObject([
      { callId: 'call_0_1', type: 'approve' },
      { callId: 'call_0_2', type: 'reject', reason: 'They are empty.' },
      { callId: 'call_0_4', type: 'reject', reason: 'They are empty.' },
    ]);
  });

  test('approves together only what this person may approve, with a sum only if each has an amount', async () => {
    await desk.start('single', 'Pay Bob back.');
    await desk.start('letters', 'Write to Ada.');
    await desk.start('releases', 'Release it.');
    const { page, rows } = await desk.visit();
    await rows.nth(0).focus();
    await page.keyboard.press('Control+a');
    await page.getByText('2 of them cannot be decided together').waitFor();
    await page.getByRole('button', { name: 'Approve 1 ($42.00)' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'It happened…' }).waitFor();
  });

  test('has beside a decision what came before: who asked, what was spent, messages, equal calls and decisions', async () => {
    const earlier = await desk.start('twice', 'Pay Ann back.');
    await earlier.approve('call_0_0', { by: 'Carl' });
    await earlier.settled();
    await earlier.cancel();
    const run = await desk.start('twice', 'Pay Bob back.');
    await run.approve('call_0_0', { by: 'Ada' });
    await run.settled();
    const { page } = await desk.visit();
    const beside = page.getByRole('region', { name: 'What came before' });
    await beside.getByText(/asked by Grace · 1 turn · .* tokens · .* at work/).waitFor();
    await beside.getByText('Grace: Pay Bob back.').waitFor();
    await beside.getByText('agent: I looked at all of it.').waitFor();
    await beside.getByText('Ada approved refund of $42.00 for A-1001').waitFor();
    await beside.getByText('Carl approved refund of $42.00 for A-1001').waitFor();
    const equal = beside.getByRole('listitem').filter({ hasText: 'another refund of $42.00 for A-1001' });
    const links = await equal.getByRole('link').all();
    expect(await Promise.all(links.map(link => link.getAttribute('href')))).toEqual([
      expect.stringContaining(`/runs/${run.id}?at=`),
      expect.stringContaining(`/runs/${earlier.id}?at=`),
    ]);
    await expect.poll(() => links[1]?.innerText()).toMatch(`in ${earlier.id}`);
  });

  test('has the sign-ins that runs wait for, each with its address', async () => {
    const run = await desk.start('accounts', 'Look Ada up.');
    await desk.start('single', 'Pay Bob back.');
    const { page, rows } = await desk.visit('/inbox?kind=sign-in');
    await expect.poll(() => rows.count()).toBe(1);
    expect((await rows.innerText()).replaceAll(/\s+/g, ' ')).toMatch(
      /^sign in crm .* A person must sign in at "crm"\. Look Ada up\./,
    );
    await page.getByRole('link', { name: /Inbox 2/ }).waitFor();
    await desk.visit(`/inbox/${run.id}/crm`);
    await page.getByRole('article', { name: 'sign in: crm' }).getByText('Sign in').first().waitFor();
  });

  inAll.each(
    [1440, 1024, 768, 360].flatMap(width =>
      (['light', 'dark'] as const).map(colorScheme => ({ width, colorScheme })),
    ),
  )('has no barrier, $width px wide, in $colorScheme', async look => {
    await desk.start('parcels', 'Six parcels came back.');
    await desk.start('releases', 'Release it.');
    const { page, watched, rows } = await desk.visit('/inbox', look);
    await rows.nth(6).waitFor();
    expect(await watched.findBarriers()).toEqual([]);
    await rows.nth(0).click();
    await page.getByRole('button', { name: 'It happened…' }).waitFor();
    expect(await watched.findBarriers()).toEqual([]);
  });
});
