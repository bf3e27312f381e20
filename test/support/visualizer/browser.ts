import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import {
  type Browser,
  type ConsoleMessage,
  chromium,
  type Locator,
  type Page,
  type Request,
} from 'playwright-core';
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
  idle.delete(browser);
  await Promise.all(browser.contexts().map(context => context.close()));
}

/** The closed pages of each browser, each alone in its context: a page that is opened again saves half a second of CPU time. */
const idle = new Map<Browser, Page[]>();

let emptyPage: Promise<string> | undefined;

/** An empty document of the site that tests serve, because the process of a page ends when it leaves its site. */
async function serveEmptyPage(): Promise<string> {
  const server = createServer((_, response) => response.setHeader('content-type', 'text/html').end());
  await once(server.listen(0, '127.0.0.1').unref(), 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** A page without cookies, storage, routes and listeners. */
async function takePage(browser: Browser): Promise<Page> {
  const page = idle.get(browser)?.pop();
  if (page !== undefined) return page;
  const context = await browser.newContext();
  context.setDefaultTimeout(60_000);
  return await context.newPage();
}

/** Makes a page as good as new, once. Closes its context if there is more to undo: other tabs, or a page that has ended. */
async function returnPage(browser: Browser, page: Page): Promise<void> {
  const context = page.context();
  if (idle.get(browser)?.includes(page)) return;
  try {
    if (context.pages().length !== 1) throw new Error('There are other tabs.');
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await page.evaluate('localStorage.clear(); sessionStorage.clear();');
    await context.clearCookies();
    emptyPage ??= serveEmptyPage();
    await page.goto(await emptyPage);
    await page.mouse.move(0, 0);
    idle.set(browser, [...(idle.get(browser) ?? []), page]);
  } catch {
    await context.close();
  }
}

/** Resolves once what was rendered before has been laid out and painted. */
const PAINTED = 'new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)))';

/** Decides as a person does: a press that asks, and Enter. */
export async function decideWith(button: Locator): Promise<void> {
  await button.click();
  await button.press('Enter');
}

export type Look = { width?: number; height?: number; colorScheme?: 'light' | 'dark' };

/** A page that records problems: console errors, exceptions, and requests to another origin. */
export class WatchedPage {
  readonly page: Page;
  readonly problems: string[] = [];
  readonly #browser: Browser;
  readonly #origin: string;

  private constructor(browser: Browser, page: Page, origin: string) {
    this.#browser = browser;
    this.page = page;
    this.#origin = origin;
    page.on('console', this.#onConsole).on('pageerror', this.#onError).on('request', this.#onRequest);
  }

  readonly #onConsole = (message: ConsoleMessage) => {
    if (message.type() === 'error') this.problems.push(`${message.text()} ${message.location().url}`.trim());
  };
  readonly #onError = (error: Error) => {
    this.problems.push(String(error.stack));
  };
  readonly #onRequest = (request: Request) => {
    if (new URL(request.url()).origin !== this.#origin) this.problems.push(`request to ${request.url()}`);
  };

  /** Opens an address in a page that shares nothing with others. */
  static async open(browser: Browser, url: string, look: Look = {}): Promise<WatchedPage> {
    const { width = 1280, height = 800, colorScheme = 'light' } = look;
    const page = await takePage(browser);
    await Promise.all([
      page.setViewportSize({ width, height }),
      page.emulateMedia({ colorScheme, reducedMotion: null }),
    ]);
    const watched = new WatchedPage(browser, page, new URL(url).origin);
    await page.goto(url);
    return watched;
  }

  async screenshot(name: string): Promise<void> {
    const folder = fileURLToPath(new URL('../../../test-results/', import.meta.url));
    mkdirSync(folder, { recursive: true });
    await this.page.screenshot({ path: `${folder}${name}.png` });
  }

  /**
   * The serious and critical violations that axe finds, one line each; also of its rule for the size of targets. With
   * `only`, those of one of its rules.
   */
  async findBarriers(only?: string): Promise<string[]> {
    await this.page.evaluate(`globalThis.axe ?? (() => { ${AXE} })()`);
    await this.page.evaluate(PAINTED);
    const rules = only === undefined ? { rules: { 'target-size': { enabled: true } } } : { runOnly: [only] };
    const options = { resultTypes: ['violations'], preload: false, ...rules };
    const found: { violations: { id: string; impact: string; nodes: { html: string }[] }[] } =
      await this.page.evaluate(`axe.run(document, ${JSON.stringify(options)})`);
    return found.violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(' | ')}`);
  }

  /** The count at an edge or state of the chart, such as `×2`; empty if it was never taken. */
  async countOf(id: string): Promise<string> {
    return (await this.page.locator(`#${id} > .count`).textContent()) ?? '';
  }

  /** Gives the page back, for another test. */
  async close(): Promise<void> {
    this.page.off('console', this.#onConsole).off('pageerror', this.#onError).off('request', this.#onRequest);
    await returnPage(this.#browser, this.page);
  }
}

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
