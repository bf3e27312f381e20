/**
 * Takes the screenshots of the page in docs/images: `npm run docs:screenshots`. Needs Chromium; the runs are
 * real, on scripted models.
 */
import type { Page } from 'playwright-core';
import type { Run } from '../../../agent/index.ts';
import { type Look, launchChromium, WatchedPage } from './browser.ts';
import { makeDemoAgents } from './demo-agents.ts';
import { pathOf, SIZE } from './film.ts';
import { ServedRuns } from './served-runs.ts';

const ASK = 'Ada writes that order A-1001 arrived broken. Pay back what she paid, if our policy allows it.';

const demo = makeDemoAgents();
const api = await ServedRuns.listen(demo.agents);
const browser = await launchChromium();

async function startAtRest(agent: string, input: string): Promise<Run> {
  const run = await api.start(agent, input);
  await run.settled();
  return run;
}

async function take(
  name: string,
  path: string,
  { look, isReady }: { look: Look; isReady(page: Page): Promise<unknown> },
): Promise<void> {
  const watched = await WatchedPage.open(browser, `${api.url}${path}`, { ...SIZE, ...look });
  await isReady(watched.page);
  await watched.page.screenshot({ path: pathOf(`${name}.png`), animations: 'disabled', caret: 'hide' });
  await watched.close();
}

try {
  const run = await startAtRest('refunds', ASK);
  const approval = (page: Page) => page.getByRole('button', { name: 'Approve', exact: true }).waitFor();
  const [light, dark] = [{ colorScheme: 'light' }, { colorScheme: 'dark' }] as const;
  await take('run-waiting', `/runs/${run.id}`, { look: light, isReady: approval });

  const release = await startAtRest('releases', 'Release version 2.4.0.');
  await startAtRest('lab', 'How wide is the hall?');
  await take('inbox', '/inbox', {
    look: light,
    isReady: async page => {
      await page.getByRole('option', { name: /Release version/ }).focus();
      await page.getByText('started the tool, attempt 1').waitFor();
    },
  });
  await release.resolve('call_0_0', { happened: true, output: { deployed: true } });

  const decided = (await demo.store.read(run.id)).length;
  const fork = await run.fork({ at: decided });
  await run.approve('call_1_0', { by: 'Grace' });
  await fork.approve('call_1_0', {
    by: 'Grace',
    input: { orderId: 'A-1001', cents: 4200, note: 'arrived broken, photo seen' },
  });
  await Promise.all([run.settled(), fork.settled()]);
  await take('run-finished', `/runs/${run.id}`, {
    look: dark,
    isReady: async page => {
      await page.locator('#state-finished.current').waitFor();
      await page.getByText('Continue in a new run').waitFor();
    },
  });
  await take('compare', `/compare/${run.id}..${fork.id}`, {
    look: { ...dark, height: 1_000 },
    isReady: async page => {
      await page.getByRole('button', { name: 'Show it' }).click();
      await page.locator('.aligned-row.is-first').waitFor();
    },
  });
} finally {
  await browser.close();
  await api.close();
}
