/**
 * Records `npm run demo:kill` from its page: `npm run docs:recording` writes docs/images/kill-light.webp and
 * kill-dark.webp, both animated, and still pictures for readers who prefer reduced motion. Needs Chromium.
 * The processes, the kills and the ledgers are real; the duration of each frame is set here.
 */
import type { Browser } from 'playwright-core';
import { Demo } from '../../../examples/kill/demo.ts';
import { serveDemo } from '../../../examples/kill/server/serve-demo.ts';
import type { Pace } from '../../../examples/kill/setup.ts';
import { launchChromium, WatchedPage } from './browser.ts';
import { Film, SIZE } from './film.ts';

/** Slow enough to capture every instant; `reply` outlasts the process, which is killed. */
const FIRST: Pace = { model: 2_400, before: 1_200, reply: 600_000 };
const LATER: Pace = { model: 1_500, before: 2_500, reply: 2_000 };

const SCHEMES = ['light', 'dark'] as const;

async function record(browser: Browser, scheme: (typeof SCHEMES)[number]): Promise<void> {
  const demo = new Demo({ restartMs: 900, paceOf: start => (start === 0 ? FIRST : LATER) });
  const served = await serveDemo(demo, 0);
  try {
    const watched = await WatchedPage.open(browser, served.url, { ...SIZE, colorScheme: scheme });
    const film = new Film(watched.page);
    await play(demo, film);
    await film.write(`kill-${scheme}`);
    await watched.close();
  } finally {
    await served.close();
    await demo.close();
  }
}

async function play(demo: Demo, film: Film): Promise<void> {
  const { page } = film;
  const at = (path: string) => page.locator(`.state.current[data-state="${path}"]`).waitFor();
  const pays = (side: string, cents: string) =>
    page.locator(`[data-side="${side}"] .total`, { hasText: cents }).waitFor();

  await film.putPointer(page.locator('.again'));
  await at('turn.finalStreaming');
  const asks = page.getByText('Both sides ask');
  while (!(await asks.isVisible())) await film.take(220);
  await film.take(700);
  await film.press(page.locator('.approve'), 240);
  await at('executingTools');
  await film.take(700);
  await pays('plain', '$99.00');
  await pays('chart', '$99.00');
  await film.take(900);
  await film.press(page.locator('.kill'), 300);
  await page.locator('.side[data-process="killed"]').nth(1).waitFor();
  await film.take(1_500);
  await demo.until(({ plain, chart }) => [plain, chart].every(({ process }) => process.is === 'running'));
  await at('resting.inDoubt');
  await page.locator('[data-side="plain"][data-process="running"]').waitFor();
  await film.take(1_600);
  await pays('plain', '$198.00');
  await film.take(2_600);
  film.markStill();
  await film.press(page.getByRole('button', { name: 'Ask the ledger' }), 300);
  await at('turn.planning');
  await film.take(500);
  await at('finished');
  await page.locator('[data-side="plain"] .at', { hasText: 'finished' }).waitFor();
  await film.take(3_200);
}

const browser = await launchChromium();
try {
  for (const scheme of SCHEMES) await record(browser, scheme);
} finally {
  await browser.close();
}
