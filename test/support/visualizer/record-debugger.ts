/**
 * Records the debugger page: `npm run docs:recording` writes docs/images/debugger-light.webp and debugger-dark.webp,
 * both animated, and still pictures. Needs Chromium. The runs are real, on scripted models; the duration of each frame
 * is set here.
 */
import type { Browser } from 'playwright-core';
import { launchChromium, WatchedPage } from './browser.ts';
import { makeDemoAgents } from './demo-agents.ts';
import { Film, SIZE } from './film.ts';
import { ServedRuns } from './served-runs.ts';

const ASK = 'Ada writes that order A-1001 arrived broken. Pay back what she paid.';
const SCHEMES = ['light', 'dark'] as const;

async function record(browser: Browser, colorScheme: (typeof SCHEMES)[number]): Promise<void> {
  const api = await ServedRuns.listen(makeDemoAgents().agents);
  try {
    const run = await api.start('refunds', ASK);
    await run.settled();
    const watched = await WatchedPage.open(browser, `${api.url}/runs/${run.id}`, { ...SIZE, colorScheme });
    await play(new Film(watched.page), `debugger-${colorScheme}`);
    await watched.close();
  } finally {
    await api.close();
  }
}

/** Scrubs back to the start and forth again, adds to the refund's note, approves it and plays to the end. */
async function play(film: Film, name: string): Promise<void> {
  const { page } = film;
  const slider = page.getByRole('slider', { name: 'Entry' });
  const approve = page.getByRole('button', { name: 'Approve', exact: true });
  await approve.waitFor();
  await film.putPointer(approve);
  await film.take(1_400);
  for (let step = 0; step < 10; step += 1) {
    await slider.press('ArrowLeft');
    await film.take(180);
  }
  await film.take(700);
  while ((await slider.getAttribute('aria-valuenow')) !== (await slider.getAttribute('aria-valuemax'))) {
    await slider.press('ArrowRight');
    await film.take(320);
  }
  await film.take(900);
  await film.press(page.getByRole('button', { name: 'Edit…' }), 250);
  await page.getByRole('textbox', { name: 'note' }).fill('arrived broken, photo seen');
  await film.take(1_500);
  await film.press(page.getByRole('button', { name: 'Approve with changes' }), 250);
  await film.take(1_200);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Continue in a new run' }).waitFor();
  await film.take(1_600);
  film.markStill();
  await film.press(page.getByRole('tab', { name: 'Waterfall' }), 250);
  await film.take(1_600);
  await film.press(page.getByRole('tab', { name: /^Journal/ }), 250);
  await film.take(1_600);
  await film.write(name);
}

const browser = await launchChromium();
try {
  for (const scheme of SCHEMES) await record(browser, scheme);
} finally {
  await browser.close();
}
