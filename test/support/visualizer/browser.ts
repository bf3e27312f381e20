import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { omitUndefined } from '../../../protocol/json.ts';

const PLACES = [
  process.env.CHROMIUM_PATH ?? '',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
];

/** Undefined if no Chromium is installed here. */
export const CHROMIUM = PLACES.find(place => place !== '' && existsSync(place));

const QUIET = ['background-networking', 'component-update', 'sync', 'gpu'].map(what => `--disable-${what}`);

export function launchChromium(): Promise<Browser> {
  const args = ['--no-sandbox', '--no-first-run', ...QUIET];
  return chromium.launch({ ...omitUndefined({ executablePath: CHROMIUM }), args });
}

let shared: Promise<Browser> | undefined;

/** The Chromium of this process, for one test file after another: a start takes a second. It ends with the process. */
export function sharedChromium(): Promise<Browser> {
  shared ??= launchChromium();
  return shared;
}

/** Closes all pages of a shared Chromium. */
export async function closePages(browser: Browser): Promise<void> {
  await Promise.all(browser.contexts().map(context => context.close()));
}

export type Look = { width?: number; height?: number; colorScheme?: 'light' | 'dark' };

/** A page that records problems: console errors, exceptions, and requests to another host. */
export class WatchedPage {
  readonly page: Page;
  readonly problems: string[] = [];
  readonly #context: BrowserContext;

  private constructor(context: BrowserContext, page: Page, host: string) {
    this.#context = context;
    this.page = page;
    page.on('console', message => {
      if (message.type() === 'error') this.problems.push(message.text());
    });
    page.on('pageerror', error => this.problems.push(String(error.stack)));
    page.on('request', request => {
      if (new URL(request.url()).host !== host) this.problems.push(`request to ${request.url()}`);
    });
  }

  static async open(browser: Browser, url: string, look: Look = {}): Promise<WatchedPage> {
    const { width = 1280, height = 800, colorScheme = 'light' } = look;
    const context = await browser.newContext({ viewport: { width, height }, colorScheme });
    context.setDefaultTimeout(60_000);
    const watched = new WatchedPage(context, await context.newPage(), new URL(url).host);
    await watched.page.goto(url);
    return watched;
  }

  async screenshot(name: string): Promise<void> {
    const folder = fileURLToPath(new URL('../../../test-results/', import.meta.url));
    mkdirSync(folder, { recursive: true });
    await this.page.screenshot({ path: `${folder}${name}.png` });
  }

  /** The serious and critical violations that axe finds, one line each. */
  async findBarriers(): Promise<string[]> {
    await this.page.evaluate(AXE);
    const found: { violations: { id: string; impact: string; nodes: { html: string }[] }[] } =
      await this.page.evaluate('axe.run(document, { resultTypes: ["violations"] })');
    return found.violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(' | ')}`);
  }

  /** The count at an edge or state of the chart, such as `×2`; empty if it was never taken. */
  async countOf(id: string): Promise<string> {
    return (await this.page.locator(`#${id} > .count`).textContent()) ?? '';
  }

  async close(): Promise<void> {
    await this.#context.close();
  }
}

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
