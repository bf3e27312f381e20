/**
 * Takes the screenshots of the page in docs/images: `npm run docs:screenshots`. Needs Chromium; the runs are
 * real, on scripted models.
 */
import { fileURLToPath } from 'node:url';
import { launchChromium, WatchedPage } from './browser.ts';
import { makeDemoAgents } from './demo-agents.ts';
import { ServedRuns } from './served-runs.ts';

const ASK = 'Ada writes that order A-1001 arrived broken. Pay back what she paid, if our policy allows it.';

const pathOf = (name: string): string =>
  fileURLToPath(new URL(`../../../docs/images/${name}.png`, import.meta.url));

const api = await ServedRuns.listen(makeDemoAgents().agents);
const browser = await launchChromium();
try {
  const run = await api.start('refunds', ASK);
  await run.settled();
  const url = `${api.url}/runs/${run.id}`;
  const size = { width: 1280, height: 800 };

  const waiting = await WatchedPage.open(browser, url, { ...size, colorScheme: 'light' });
  await waiting.page.getByRole('button', { name: 'Approve' }).waitFor();
  await waiting.page.screenshot({ path: pathOf('run-waiting') });

  await run.approve('call_1_0', { by: 'Grace' });
  await run.settled();
  const finished = await WatchedPage.open(browser, url, { ...size, colorScheme: 'dark' });
  await finished.page.locator('#state-finished.current').waitFor();
  await finished.page.getByText('Continue in a new run').waitFor();
  await finished.page.screenshot({ path: pathOf('run-finished') });
} finally {
  await browser.close();
  await api.close();
}
