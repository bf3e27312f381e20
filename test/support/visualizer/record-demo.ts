/**
 * Records `npm run demo:kill` from its page: `npm run docs:recording` writes docs/images/kill-light.webp and
 * kill-dark.webp, both animated, and still pictures for readers who prefer reduced motion. Needs Chromium.
 * The processes, the kills and the ledgers are real; the duration of each frame is set here.
 */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Browser, Locator, Page } from 'playwright-core';
import sharp from 'sharp';
import { Demo } from '../../../examples/kill/demo.ts';
import { serveDemo } from '../../../examples/kill/server/serve-demo.ts';
import type { Pace } from '../../../examples/kill/setup.ts';
import { launchChromium, WatchedPage } from './browser.ts';

const SIZE = { width: 1280, height: 800 };
/** Slow enough to capture every instant; `reply` outlasts the process, which is killed. */
const FIRST: Pace = { model: 2_400, before: 1_200, reply: 600_000 };
const LATER: Pace = { model: 1_500, before: 2_500, reply: 2_000 };

/** One screenshot, as a PNG. */
type Frame = { png: Buffer; durationMs: number };

const SCHEMES = ['light', 'dark'] as const;

async function record(browser: Browser, scheme: (typeof SCHEMES)[number]): Promise<void> {
  const demo = new Demo({ restartMs: 900, paceOf: start => (start === 0 ? FIRST : LATER) });
  const served = await serveDemo(demo, 0);
  try {
    const watched = await WatchedPage.open(browser, served.url, { ...SIZE, colorScheme: scheme });
    const film = new Film(watched.page);
    await play(demo, film);
    const still = film.frames.at(film.stillAt);
    const delay = film.frames.map(({ durationMs }) => durationMs);
    await sharp(
      film.frames.map(({ png }) => png),
      { join: { animated: true } },
    )
      .webp({ lossless: true, effort: 6, loop: 0, delay })
      .toFile(pathOf(`kill-${scheme}.webp`));
    if (still !== undefined) writeFileSync(pathOf(`kill-${scheme}-still.png`), still.png);
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

/** Captures frames of the page, with a pointer that moves to the pressed elements. */
class Film {
  readonly page: Page;
  readonly frames: Frame[] = [];
  stillAt = 0;
  #at = { x: SIZE.width / 2, y: SIZE.height - 60 };

  constructor(page: Page) {
    this.page = page;
  }

  async take(durationMs: number): Promise<void> {
    const png = await this.page.screenshot({ animations: 'disabled', caret: 'hide' });
    this.frames.push({ png, durationMs });
  }

  /** Marks the latest frame as the still picture. */
  markStill(): void {
    this.stillAt = this.frames.length - 1;
  }

  async press(target: Locator, durationMs: number): Promise<void> {
    const to = await middleOf(target);
    const from = this.#at;
    for (const part of [0.45, 0.85]) {
      await this.#move({ x: from.x + (to.x - from.x) * part, y: from.y + (to.y - from.y) * part });
      await this.take(70);
    }
    await this.#move(to);
    await this.page.mouse.down();
    await this.take(durationMs);
    await this.page.mouse.up();
  }

  async putPointer(near: Locator): Promise<void> {
    const at = await middleOf(near);
    await this.page.evaluate(DRAW_POINTER);
    await this.#move({ x: at.x + 40, y: at.y + 50 });
  }

  async #move({ x, y }: { x: number; y: number }): Promise<void> {
    this.#at = { x, y };
    await this.page.mouse.move(x, y);
    await this.page.evaluate(`movePointer(${x}, ${y})`);
  }
}

const DRAW_POINTER = `{
  const draw = (tag, attributes) => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const pointer = draw('svg', { viewBox: '0 0 16 24', 'aria-hidden': 'true' });
  pointer.append(draw('path', { d: 'M1 1v18l4.5-4 3 7 3-1.3-3-6.7H15z', fill: '#111', stroke: '#fff', 'stroke-width': 1.6 }));
  Object.assign(pointer.style, { position: 'fixed', width: '26px', zIndex: 9, pointerEvents: 'none' });
  document.body.append(pointer);
  globalThis.movePointer = (x, y) => Object.assign(pointer.style, { left: x + 'px', top: y + 'px' });
}`;

async function middleOf(target: Locator): Promise<{ x: number; y: number }> {
  const box = await target.boundingBox();
  if (box === null) throw new Error('The element to press is not on the page.');
  return { x: Math.round(box.x + box.width / 2), y: Math.round(box.y + box.height / 2) };
}

function pathOf(file: string): string {
  return fileURLToPath(new URL(`../../../docs/images/${file}`, import.meta.url));
}

const browser = await launchChromium();
try {
  for (const scheme of SCHEMES) await record(browser, scheme);
} finally {
  await browser.close();
}
