import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import type { Browser } from 'playwright-core';
import { rolldown } from 'rolldown';
import { build as buildWithVite } from 'vite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startStandIn } from '../runtimes/stand-in.ts';
import { CHROMIUM, closePages, sharedChromium, WatchedPage } from '../support/visualizer/browser.ts';

/**
 * An agent, actors with `agent.services()` and `agentchart/machine`, with four adapters over `fetch`, in a real browser
 * tab. The bundlers add nothing of Node.
 */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PROGRAM = `${ROOT}test/runtimes/program/page.ts`;

async function bundleWithEsbuild(): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [PROGRAM],
    bundle: true,
    platform: 'browser',
    format: 'esm',
    write: false,
    logLevel: 'silent',
  });
  return outputFiles[0]?.text ?? '';
}

async function bundleWithRolldown(): Promise<string> {
  const bundle = await rolldown({
    cwd: ROOT,
    input: PROGRAM,
    platform: 'browser',
    tsconfig: `${ROOT}tsconfig.json`,
    onLog: (_level, { message }) => {
      throw new Error(message);
    },
  });
  const { output } = await bundle.generate({ format: 'esm', codeSplitting: false });
  return output[0].code;
}

async function bundleWithVite(): Promise<string> {
  const built = await buildWithVite({
    root: ROOT,
    configFile: false,
    logLevel: 'silent',
    resolve: { tsconfigPaths: true },
    build: { write: false, rolldownOptions: { input: PROGRAM } },
  });
  const [bundle] = [built].flat();
  if (bundle === undefined || !('output' in bundle)) throw new Error('Vite has built nothing.');
  return bundle.output[0].code;
}

const BUNDLERS = [
  ['esbuild', bundleWithEsbuild],
  ['rolldown', bundleWithRolldown],
  ['vite', bundleWithVite],
] as const;

describe.skipIf(CHROMIUM === undefined)('in a browser tab', () => {
  let browser: Browser;

  beforeAll(async () => {
    browser = await sharedChromium();
  });
  afterAll(() => closePages(browser));

  for (const [name, bundle] of BUNDLERS)
    test(`bundled by ${name}, an agent, its actors and the adapters work`, async () => {
      await using standIn = await startStandIn({
        '/': '<!doctype html><link rel="icon" href="data:,"><script type="module" src="page.js"></script>',
        '/page.js': await bundle(),
      });
      const watched = await WatchedPage.open(browser, `${standIn.origin}/`);
      const outcome: object = await watched.page.evaluate('globalThis.outcome');
      expect(Object.keys(outcome)).toHaveLength(5);
      expect(Object.entries(outcome).filter(([, result]) => result !== 'ok')).toEqual([]);
      expect(watched.problems).toEqual([]);
      await watched.close();
    });
});
