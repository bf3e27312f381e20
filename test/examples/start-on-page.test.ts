import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { HAS_TERMINAL, startOnTerminal } from '../support/examples/npm-start.ts';
import { makeTemporaryFolder } from '../support/temporary-folders.ts';
import { CHROMIUM, decideWith, sharedChromium, WatchedPage } from '../support/visualizer/browser.ts';

/** What a newcomer does with `npm start` and its page. */

test.runIf(HAS_TERMINAL && CHROMIUM !== undefined)(
  'npm start: a newcomer reads why a killed refund asks, decides it in the inbox, forks it with half the amount and compares the two',
  async () => {
    const cwd = makeTemporaryFolder('start');
    const paid = () => readFileSync(join(cwd, '.agentchart/steward/payments.txt'), 'utf8');
    const terminal = startOnTerminal(cwd);
    const url = await terminal.printed(/Decide it in the inbox: (http:\S+)/);
    const watched = await WatchedPage.open(await sharedChromium(), url);
    const { page } = watched;
    try {
      const killed = await terminal.printed(/Process (\d+) is gone/);
      expect(existsSync(`/proc/${killed}`)).toBe(false);
      expect(paid()).toBe('refund order-1042 $99.00\n');

      await page
        .getByRole('listbox')
        .getByRole('option', { name: /in doubt/ })
        .click();
      const decision = page.getByRole('article', { name: 'in doubt: refund' });
      await decision.getByText(`:${killed} started the tool`).waitFor();
      await decision.getByText(`:${killed} was gone`).waitFor();
      await decision.getByText('the process ended in between').waitFor();
      const [original] = await Promise.all([
        decision.getByRole('link', { name: 'Open the run' }).getAttribute('href'),
        decision.getByRole('button', { name: 'It happened…' }).click(),
      ]);
      await decision.getByLabel(/result/).fill('{ "refundedCents": 9900 }');
      await decideWith(decision.getByRole('button', { name: 'It happened', exact: true }));
      await page.getByText('Resolved: refund.').waitFor();

      await page.goto(new URL(original ?? '', url).href);
      await page.getByText('Done: the money is on its way').first().waitFor();
      expect(paid()).toBe('refund order-1042 $99.00\n');

      await page.getByRole('button', { name: /Fork here/ }).click();
      await page.getByRole('button', { name: 'Change a call…' }).click();
      await page.getByLabel(/^cents/).fill('4950');
      await page.getByRole('button', { name: 'Fork and approve this input' }).click();
      await page.getByRole('link', { name: 'compare', exact: true }).click();
      await page.waitForURL(/\/compare\//);
      const main = page.locator('main');
      await expect.poll(() => main.innerText()).toContain('"refundedCents":4950');
      await expect.poll(() => main.innerText()).toContain('"refundedCents":9900');
      expect(paid()).toBe('refund order-1042 $99.00\nrefund order-1042 $49.50\n');
      expect(await watched.findBarriers()).toEqual([]);
      expect(watched.problems).toEqual([]);
    } finally {
      await watched.close();
      terminal.close();
      await terminal.ended;
    }
    const isServed = () =>
      fetch(url).then(
        () => true,
        () => false,
      );
    await expect.poll(isServed, { message: 'the page ends with its terminal', timeout: 20_000 }).toBe(false);
  },
);
