import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer, get } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser, Page } from 'playwright-core';
import { scripted } from '../../adapters/scripted.ts';
import { type Agent, createAgent, memory, type Store } from '../../agent/index.ts';
import { begin, makeProgress } from '../../stores/conformance/check.ts';
import { CHROMIUM, launchChromium } from '../../test/support/visualizer/browser.ts';
import { makeSurvey, measure } from '../../test/support/visualizer/long-run.ts';
import { ServedRuns } from '../../test/support/visualizer/served-runs.ts';
import { buildPage } from '../../visualizer/build-page.ts';
import { median } from '../statistics.ts';
import type { Metrics } from '../workload.ts';

const ENTRIES = 10_000;
const RUNS = { '1,000 runs': 1_000, '100,000 runs': 100_000 };
const VISITS = 5;
const MOVES = 40;
const LIVE_TURNS = 12;

/** What the workload measures of the page; each needs a server of its own. */
export const PAGE_MEASURES: Readonly<Record<string, () => Promise<Metrics>>> = {
  '10,000 entries': measureLongRun,
  'a live run': measureLiveRun,
  '1,000 runs': () => measureList(RUNS['1,000 runs']),
  '100,000 runs': () => measureList(RUNS['100,000 runs']),
  assets: measureAssets,
};

type Bench = { browser: Browser; api: ServedRuns; store: Store; emptyMs: number };

async function withPage(
  makeAgent: (store: Store) => Agent,
  look: (bench: Bench) => Promise<Metrics>,
): Promise<Metrics> {
  if (CHROMIUM === undefined) throw new Error('The page needs a Chromium: set CHROMIUM_PATH.');
  const store = memory();
  const api = await ServedRuns.listen([makeAgent(store)]);
  const browser = await launchChromium();
  try {
    const emptyMs = await measureEmptyPage(browser);
    return { emptyMs, ...(await look({ browser, api, store, emptyMs })) };
  } finally {
    await browser.close();
    await api.close();
  }
}

/** When the browser first paints a page of one word without styles and scripts, in ms: the scale of the other times. */
async function measureEmptyPage(browser: Browser): Promise<number> {
  const server = createServer((_, response) => {
    response.setHeader('content-type', 'text/html').end('<!doctype html><title>Empty</title><p>Empty');
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const { paintMs } = await measureVisits(browser, url, 'document.querySelector("p")');
  server.close();
  return paintMs;
}

/** Visits an address several times, each in a new context, after one visit that warms the browser up. */
async function measureVisits(
  browser: Browser,
  url: string,
  isUsable: string,
): Promise<{ paintMs: number; usableMs: number; longestMs: number }> {
  const visits: { paintMs: number; usableMs: number; longestMs: number }[] = [];
  for (let visit = 0; visit <= VISITS; visit += 1) {
    const page = await openPage(browser, url, isUsable);
    const [paintMs, usableMs]: [number, number] = await page.evaluate('Promise.all([painted, usable])');
    const longestMs = await page.evaluate<number>(LONGEST_TASK);
    await page.context().close();
    if (visit > 0) visits.push({ paintMs, usableMs, longestMs });
  }
  const middle = (name: 'paintMs' | 'usableMs' | 'longestMs') => median(visits.map(visit => visit[name]));
  return { paintMs: middle('paintMs'), usableMs: middle('usableMs'), longestMs: middle('longestMs') };
}

/** As `measureVisits` of a path of the page, with its first paint as a share of that of an empty page. */
async function measureViews({ browser, api, emptyMs }: Bench, path: string, isUsable: string) {
  const visits = await measureVisits(browser, `${api.url}${path}`, isUsable);
  return { ...visits, paintShare: visits.paintMs / emptyMs };
}

/** The longest task of a page that took more than 50 ms, after a pause in which the browser reports the last ones; else 0. */
const LONGEST_TASK = `new Promise(resolve => setTimeout(resolve, 200)).then(() =>
  Math.max(0, ...longTasks.map(task => task.duration)))`;

/**
 * Opens a page in a new context and waits until `isUsable`, an expression, is true. In the page, `usable` resolves to
 * when, and `painted` to when it first painted contents, in ms.
 */
async function openPage(browser: Browser, url: string, isUsable: string): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  await page.addInitScript(`globalThis.longTasks = [];
  new PerformanceObserver(list => longTasks.push(...list.getEntries())).observe({ type: 'longtask', buffered: true });
  globalThis.usable = new Promise(resolve => {
    const look = new MutationObserver(() => {
      if (!(${isUsable})) return;
      resolve(performance.now());
      look.disconnect();
    });
    look.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  });
  globalThis.painted = new Promise(resolve => {
    new PerformanceObserver(list => {
      for (const { name, startTime } of list.getEntries()) if (name === 'first-contentful-paint') resolve(startTime);
    }).observe({ type: 'paint', buffered: true });
  })`);
  await page.goto(url);
  await page.evaluate('usable');
  return page;
}

const SLIDER = `document.querySelector('[role="slider"]')`;

async function measureLongRun(): Promise<Metrics> {
  let survey: Agent | undefined;
  const makeAgent = (store: Store): Agent => (survey = makeSurvey(store, ENTRIES));
  return await withPage(makeAgent, async bench => {
    const run = await survey?.start('Measure all points.');
    if (run === undefined || (await run.settled()).status !== 'finished') throw new Error('no long run');
    const path = `/runs/${run.id}`;
    const isUsable = `document.querySelector('.reply') && Number(${SLIDER}?.ariaValueNow) >= ${ENTRIES}`;
    const visits = await measureViews(bench, path, isUsable);
    const page = await openPage(bench.browser, `${bench.api.url}${path}`, isUsable);
    await page.getByRole('slider', { name: 'Entry' }).press('Home');
    await page.getByRole('heading', { name: /^Entry 1 / }).waitFor();
    await page.getByRole('slider', { name: 'Entry' }).press('End');
    await page.evaluate(`${LONGEST_TASK}.then(() => void longTasks.splice(0))`);
    const nodes: number = await page.evaluate(`document.querySelectorAll('*').length`);
    const stepMs = median(await page.evaluate<number[]>(moveTimes(`press('ArrowLeft')`)));
    const jumpMs = median(
      await page.evaluate<number[]>(moveTimes('point(0.05 + 0.9 * ((index * 37) % 41) / 41)')),
    );
    const longestMoveMs = await page.evaluate<number>(LONGEST_TASK);
    const cdp = await page.context().newCDPSession(page);
    await cdp.send('HeapProfiler.collectGarbage');
    const heapMB = (await (await readMetrics(page))('JSHeapUsedSize')) / 2 ** 20;
    return { ...visits, nodes, heapMB, rendererMB: largestRendererMB(), stepMs, jumpMs, longestMoveMs };
  });
}

/** Times from an input event to the new layout, for `MOVES` moves of the cursor. */
function moveTimes(move: string): string {
  return `(async () => {
    const slider = ${SLIDER};
    slider.setPointerCapture = () => {};
    const press = key => slider.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
    const point = part => {
      const { left, width, top } = slider.getBoundingClientRect();
      const at = { clientX: left + width * part, clientY: top + 4, buttons: 1, bubbles: true };
      slider.dispatchEvent(new PointerEvent('pointerdown', at));
    };
    const times = [];
    for (let index = 0; index < ${MOVES}; index += 1) {
      const before = slider.ariaValueNow;
      const from = performance.now();
      ${move};
      while (slider.ariaValueNow === before && performance.now() - from < 1_000) await null;
      document.documentElement.getBoundingClientRect();
      times.push(performance.now() - from);
      await new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve, 0)));
    }
    return times;
  })()`;
}

async function measureLiveRun(): Promise<Metrics> {
  const words = 'The next point lies a little further along the line. '.repeat(8);
  const turns = Array.from({ length: LIVE_TURNS }, (_, turn) => ({
    text: `${turn}: ${words}`,
    toolCalls: Array.from({ length: 4 }, (_, point) => ({ name: 'measure', arguments: { point } })),
    delayMs: 500,
  }));
  const makeAgent = (store: Store): Agent =>
    createAgent({
      name: 'live',
      store,
      model: scripted([...turns, { text: words, delayMs: 500 }]),
      tools: [measure],
    });
  return await withPage(makeAgent, async ({ browser, api }) => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    const page = await context.newPage();
    await page.addInitScript(`{
      globalThis.longTasks = [];
      new PerformanceObserver(list => longTasks.push(...list.getEntries())).observe({ type: 'longtask' });
    }`);
    const metrics = await readMetrics(page);
    const run = await api.start('live', 'Measure.');
    await page.goto(`${api.url}/runs/${run.id}`);
    await page.locator('.connection[data-is="live"]').waitFor();
    const began: number = await page.evaluate('performance.now()');
    const [from, busy] = [performance.now(), await metrics('TaskDuration')];
    await page.locator('#state-finished.current').waitFor({ timeout: 60_000 });
    const spent = (await metrics('TaskDuration')) - busy;
    const busyPercent = (100_000 * spent) / (performance.now() - from);
    const longestMs: number = await page.evaluate(
      `Math.max(0, ...longTasks.filter(task => task.startTime >= ${began}).map(task => task.duration))`,
    );
    return { busyPercent, longestMs };
  });
}

async function measureList(runs: number): Promise<Metrics> {
  const makeAgent = (store: Store): Agent => makeSurvey(store, 1);
  return await withPage(makeAgent, async bench => {
    for (let index = 0; index < runs; index += 1) {
      const at = Date.now() - index * 60_000;
      const started = begin(`run_${index}`, {
        at,
        agent: { name: 'survey' },
        title: `Measure area ${index}`,
      });
      const progress = makeProgress('finished', { endedAt: at + 5_000 });
      await bench.store.create(started, undefined, { events: [], status: 'finished', progress });
    }
    const isUsable = `document.querySelector('a[href^="/runs/run_"]')`;
    const visits = await measureViews(bench, '/runs', isUsable);
    await openPage(bench.browser, `${bench.api.url}/runs`, isUsable);
    return { ...visits, rendererMB: largestRendererMB() };
  });
}

async function measureAssets(): Promise<Metrics> {
  const makeAgent = (store: Store): Agent => makeSurvey(store, 1);
  return await withPage(makeAgent, async ({ api }) => {
    const { scripts } = await buildPage();
    const files = ['page.css', 'icon.svg', ...Object.keys(scripts)];
    const paths = ['/', ...files.map(file => `/assets/${file}`)];
    const listed = ['page.css', ...namesLoadedWith('page.js', scripts)].map(file => `/assets/${file}`);
    const sizeOf = async (wanted: readonly string[]) => {
      const sizes = await Promise.all(wanted.map(path => transferSize(`${api.url}${path}`)));
      return sizes.reduce((sum, size) => sum + size, 0) / 1_000;
    };
    return { listKB: await sizeOf(listed), assetsKB: await sizeOf(paths) };
  });
}

/** The script, and those that it imports at once. */
function namesLoadedWith(name: string, scripts: Readonly<Record<string, string>>): Set<string> {
  const names = new Set([name]);
  for (const one of names)
    for (const [, next = ''] of (scripts[one] ?? '').matchAll(/(?:from|import)"\.\/([^"]+)"/g))
      names.add(next);
  return names;
}

/** The bytes of a response's body as sent, compressed. */
function transferSize(url: string): Promise<number> {
  return new Promise((resolve, reject) => {
    get(url, { headers: { accept: 'text/html', 'accept-encoding': 'gzip' } }, response => {
      let size = 0;
      response.on('data', (chunk: Buffer) => (size += chunk.length));
      response.on('end', () => resolve(size));
    }).on('error', reject);
  });
}

/** A reader of Chromium's counters for a page: they count from here on. */
async function readMetrics(page: Page): Promise<(name: string) => Promise<number>> {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('Performance.enable');
  return async wanted => {
    const { metrics } = await cdp.send('Performance.getMetrics');
    return metrics.find(({ name }) => name === wanted)?.value ?? Number.NaN;
  };
}

/** The resident memory of the largest renderer below this process; NaN where there is no /proc. */
function largestRendererMB(): number {
  const sizes = readPids().flatMap(pid => {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      if (!command.includes('--type=renderer') || !isBelow(pid)) return [];
      const resident = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
      return resident === undefined ? [] : [Number(resident) / 1024];
    } catch {
      return [];
    }
  });
  return sizes.length === 0 ? Number.NaN : Math.max(...sizes);
}

function readPids(): number[] {
  try {
    return readdirSync('/proc').map(Number).filter(Number.isInteger);
  } catch {
    return [];
  }
}

function isBelow(pid: number): boolean {
  for (let at = pid; at > 1; ) {
    const parent = Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${at}/status`, 'utf8'))?.[1]);
    if (parent === process.pid) return true;
    at = parent;
  }
  return false;
}
