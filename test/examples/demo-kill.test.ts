import { execFile, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, type ExpectStatic, expect, test } from 'vitest';
import { Demo, type DemoOptions } from '../../examples/kill/demo.ts';
import { type ServedDemo, serveDemo } from '../../examples/kill/server/serve-demo.ts';
import type { Pace } from '../../examples/kill/setup.ts';
import { edgeId, type GraphState, mergeEdges, readChart } from '../../visualizer/chart-graph.ts';
import { SKETCH_ARROWS, SKETCH_BOXES } from '../../visualizer/page/run/chart/chart-sketch.ts';
import { inAll, TAKES_ALL } from '../support/sample.ts';
import { CHROMIUM, closePages, sharedChromium, WatchedPage } from '../support/visualizer/browser.ts';

/** The demo, with real processes and real kills. */

const START = fileURLToPath(new URL('../../examples/kill/start.ts', import.meta.url));
const HAS_TERMINAL = spawnSync('script', ['-qec', 'true', '/dev/null']).status === 0;
const LINE = 'refund order-1042 $99.00';
const NEVER = 600_000;

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** The folder of temporary files, so that the test sees leftover files. */
function makeTemporary(): { temporary: string; env: NodeJS.ProcessEnv } {
  const temporary = mkdtempSync(join(tmpdir(), 'agentchart-demo-kill-test-'));
  folders.push(temporary);
  return { temporary, env: { ...process.env, TMPDIR: temporary } };
}

describe.concurrent('npm run demo:kill', () => {
  test('unattended, shows that the plain loop pays twice and the chart once, and leaves nothing behind', async () => {
    const { temporary, env } = makeTemporary();
    const { code, output } = await new Promise<{ code: number; output: string }>(resolve => {
      execFile(process.execPath, [START, '--once'], { env }, (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code ?? -1), output: stdout + stderr }),
      );
    });
    expect(output).toContain('ended by SIGKILL');
    expect(output).toContain(`A plain loop: finished. Its ledger, $198.00:\n  ${LINE}\n  ${LINE}\n`);
    expect(output).toContain(
      `agentchart: in doubt: it asks whether the refund happened. Its ledger, $99.00:\n  ${LINE}\n`,
    );
    expect(output).toContain(
      `agentchart: finished. Its ledger, $99.00:\n  ${LINE}\nThe plain loop paid twice`,
    );
    expect(code).toBe(0);
    expect(readdirSync(temporary)).toEqual([]);
  });

  test('exits with a usage error for an unknown option', () => {
    const { status, stderr } = spawnSync(process.execPath, [START, '--twice'], { encoding: 'utf8' });
    expect([status, stderr]).toEqual([2, expect.stringContaining('npm run demo:kill')]);
  });

  test.runIf(TAKES_ALL && HAS_TERMINAL)(
    'on a terminal, serves its page until Ctrl-C, which ends every process',
    async () => {
      const { temporary, env } = makeTemporary();
      const terminal = spawn('script', ['-qec', `'${process.execPath}' '${START}'`, '/dev/null'], {
        env,
      });
      const ended = new Promise<void>(resolve => terminal.once('close', () => resolve()));
      let output = '';
      const url = await new Promise<string>(resolve => {
        terminal.stdout.on('data', data => {
          output += data;
          const address = /Open (http:\/\/127\.0\.0\.1:\d+)\r?\n[\s\S]*Ctrl-C/.exec(output)?.[1];
          if (address !== undefined) resolve(address);
        });
      });
      const pids = await readPids(url);
      expect(pids).toHaveLength(2);
      expect(pids.every(isAlive)).toBe(true);
      terminal.stdin.write('\u0003');
      await ended;
      expect(pids.filter(isAlive)).toEqual([]);
      expect(readdirSync(temporary)).toEqual([]);
      await expect(fetch(url)).rejects.toThrow();
    },
  );
});

describe('the demo server', () => {
  let served: { demo: Demo; at: ServedDemo };
  beforeAll(async () => {
    served = await serve(() => PACE.quick);
  });
  afterAll(() => close(served));

  test('refuses a foreign Host and Origin, and its page may load only its own files', async () => {
    const { url } = served.at;
    const kill = (headers: Record<string, string>) =>
      fetch(`${url}/demo/kill`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: '{"sides":["plain","chart"]}',
      });
    expect((await kill({ origin: 'http://evil.example' })).status).toBe(403);
    expect(await statusWithHost(url, 'evil.example')).toBe(403);
    expect((await kill({ 'content-type': 'text/plain' })).status).toBe(415);
    expect(served.demo.state.plain.kills + served.demo.state.chart.kills).toBe(0);
    const policy = (await fetch(url)).headers.get('content-security-policy');
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
  });

  test('refuses an unknown command', async () => {
    const answer = await fetch(`${served.at.url}/demo/kill`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"sides":["everything"]}',
    });
    expect(answer.status).toBe(400);
  });
});

describe('the chart drawn on the page', () => {
  const all = (states: readonly GraphState[]): GraphState[] =>
    states.flatMap(state => [state, ...all(state.states)]);
  const { states, edges } = readChart();

  test('has exactly the states of the machine', () => {
    expect(Object.keys(SKETCH_BOXES).sort()).toEqual(
      all(states)
        .map(({ id }) => id)
        .sort(),
    );
  });

  test('has an arrow for every transition into and out of deciding', () => {
    const drawn = SKETCH_ARROWS.flatMap(({ states: ids, back }) =>
      ids.flatMap(id => [edgeId('deciding', id), ...(back ? [edgeId(id, 'deciding')] : [])]),
    );
    const ways = mergeEdges(edges).filter(({ from, to }) => from === 'deciding' || to === 'deciding');
    expect(ways.map(({ from, to }) => edgeId(from, to)).filter(id => !drawn.includes(id))).toEqual([]);
  });
});

const PACE = {
  quick: { model: 0, before: 0, reply: 0 },
  inModel: { model: NEVER, before: 0, reply: 0 },
  beforePaying: { model: 0, before: NEVER, reply: 0 },
  afterPaying: { model: 0, before: 0, reply: NEVER },
} satisfies Record<string, Pace>;

if (CHROMIUM === undefined)
  console.warn('The demonstration’s page is not tested: there is no Chromium here.');

describe.skipIf(CHROMIUM === undefined).concurrent('in a browser', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await sharedChromium();
  });
  afterAll(() => closePages(browser));

  inAll(
    'killed at every point, the plain loop pays twice; the chart asks and pays once',
    async ({ expect, onTestFinished }) => {
      const paces = [PACE.inModel, PACE.quick, PACE.beforePaying, PACE.afterPaying];
      const { demo, at } = await serve(start => paces[start] ?? PACE.quick);
      onTestFinished(() => close({ demo, at }));
      const watched = await WatchedPage.open(browser, at.url);
      const small = await WatchedPage.open(browser, at.url, { width: 390, colorScheme: 'dark' });
      const { page } = watched;
      const plain = sideOf(page, 'plain', expect);
      const chart = sideOf(page, 'chart', expect);
      const killBoth = page.getByRole('button', { name: 'kill -9: both processes' });
      const ask = page.getByRole('button', { name: 'Ask the ledger' });

      await plain.isAt('model(transcript)');
      await chart.isAt('turn.planning');
      await killBoth.click();

      await page.getByText('Both sides ask').waitFor();
      await killBoth.click();
      await demo.until(state => state.plain.kills === 2 && state.chart.kills === 2);
      await page.getByText('Both sides ask').waitFor();
      await page.getByRole('button', { name: 'Approve' }).press('Enter');

      await plain.isAt('refund(call)');
      await chart.isAt('executingTools');
      expect([await plain.payments(), await chart.payments()]).toEqual([0, 0]);
      await killBoth.click();

      await plain.hasPaid(1);
      await chart.isAt('resting.inDoubt');
      expect(await chart.payments()).toBe(0);
      await ask.press('Enter');
      await chart.hasPaid(1);
      await killBoth.click();

      await plain.isAt('finished');
      await plain.hasPaid(2);
      expect(await plain.verdict()).toBe('paid twice');
      await chart.isAt('resting.inDoubt');
      expect(await chart.verdict()).toBe('in doubt: it asks');
      await sideOf(small.page, 'chart', expect).isAt('resting.inDoubt');
      for (const each of [watched, small]) expect(await each.findBarriers()).toEqual([]);
      expect(await small.page.evaluate('document.documentElement.scrollWidth')).toBe(390);

      await page.getByRole('button', { name: 'kill -9: agentchart only' }).click();
      await demo.until(state => state.chart.kills === 5 && state.chart.process.is === 'running');
      expect(demo.state.plain.kills).toBe(4);
      await ask.click();
      await chart.isAt('finished');
      expect([await chart.payments(), await chart.verdict()]).toEqual([1, 'paid once']);
      const { plain: loop, chart: run } = demo.state;
      expect(readFileSync(loop.file, 'utf8')).toBe(`${LINE}\n${LINE}\n`);
      expect(readFileSync(run.file, 'utf8')).toBe(`${LINE}\n`);

      await page.getByRole('button', { name: 'Run again' }).click();
      await plain.isAt('model(transcript)');
      await chart.isAt('turn.planning');
      expect([await plain.payments(), await chart.payments()]).toEqual([0, 0]);
      expect(demo.state.plain.kills + demo.state.chart.kills).toBe(0);
      // The page asks for a run whose first process has not stored it yet.
      const early = /404 \(Not Found\).*\/runs\/\w+$/;
      expect([...watched.problems, ...small.problems].filter(text => !early.test(text))).toEqual([]);
      await watched.close();
      await small.close();
    },
  );

  inAll(
    'a run that is killed repeatedly without progress is paused, with the reason',
    async ({ expect, onTestFinished }) => {
      const { demo, at } = await serve(start => (start < 9 ? PACE.inModel : PACE.quick));
      onTestFinished(() => close({ demo, at }));
      const watched = await WatchedPage.open(browser, at.url);
      const { page } = watched;
      const chart = sideOf(page, 'chart', expect);
      await chart.isAt('turn.planning');
      const goOn = page.getByRole('button', { name: 'Continue' });
      while (!(await goOn.isVisible())) {
        const driver = await findDriver(at.url, demo);
        if (driver === null) break;
        demo.kill(['chart']);
        await demo.until(({ chart: { process: state } }) => state.is === 'running' && state.pid !== driver);
      }
      await chart.isAt('resting.paused');
      expect(await page.locator('.question').textContent()).toMatch(/paused|died|crash/i);
      await goOn.click();
      await chart.isAt('turn.planning');
      await watched.close();
    },
  );
});

/** The process that drives the run, once it is the current one; `null` when the run is paused. */
async function findDriver(url: string, demo: Demo): Promise<number | null> {
  for (;;) {
    const { chart } = demo.state;
    const answer = await fetch(`${url}/runs/${chart.runId}`);
    const view = (await answer.json()) as { state: string; driver: { pid: number } | null };
    if (view.state === 'resting.paused') return null;
    if ('pid' in chart.process && view.driver?.pid === chart.process.pid) return view.driver.pid;
    await delay(5);
  }
}

function sideOf(page: Page, side: 'plain' | 'chart', expect: ExpectStatic) {
  const root = page.locator(`[data-side="${side}"]`);
  const lines = root.locator('.lines li:not(.none)');
  return {
    isAt: (text: string) => root.locator('.at', { hasText: text }).waitFor(),
    payments: () => lines.count(),
    hasPaid: (times: number) => expect.poll(() => lines.count()).toBe(times),
    verdict: async () => await root.locator('.verdict').textContent(),
  };
}

async function serve(paceOf: NonNullable<DemoOptions['paceOf']>): Promise<{ demo: Demo; at: ServedDemo }> {
  const demo = new Demo({ restartMs: 50, paceOf });
  return { demo, at: await serveDemo(demo, 0) };
}

async function close({ demo, at }: { demo: Demo; at: ServedDemo }): Promise<void> {
  await at.close();
  await demo.close();
}

/** `fetch` overrides the Host header. */
function statusWithHost(url: string, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    request(url, { headers: { host } }, ({ statusCode }) => resolve(statusCode ?? 0))
      .once('error', reject)
      .end();
  });
}

/** The ids of both processes, once they run. */
async function readPids(url: string): Promise<number[]> {
  const reader = (await fetch(`${url}/demo/state`)).body?.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value = '', done } = (await reader?.read()) ?? { done: true };
    const running = [...value.matchAll(/"is":"running","pid":(\d+)/g)].map(([, pid]) => Number(pid));
    if (running.length === 2 || done) {
      await reader?.cancel();
      return running;
    }
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
