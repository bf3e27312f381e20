import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { serve } from '@hono/node-server';
import { serveStatic } from '@hono/node-server/serve-static';
import { build as esbuild } from 'esbuild';
import { Hono } from 'hono';
import type { Browser } from 'playwright-core';
import { build } from 'vite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent, tool } from '../../../agent/index.ts';
import { runsApp } from '../../../server/index.ts';
import { makeTemporaryFolder } from '../../support/temporary-folders.ts';
import { CHROMIUM, closePages, sharedChromium, WatchedPage } from '../../support/visualizer/browser.ts';

const source = (path: string) => fileURLToPath(new URL(`../../../${path}`, import.meta.url));

/** Builds the page of the example with Vite; returns the folder. */
async function buildExample(): Promise<string> {
  const outDir = makeTemporaryFolder('page');
  await build({
    root: source('examples/apps/react-chat'),
    configFile: false,
    logLevel: 'error',
    resolve: { alias: { 'agentchart/react': source('fronts/react/index.ts') } },
    build: { outDir, emptyOutDir: true },
  });
  return outDir;
}

/** A page of someone else: `useSelector` of `@xstate/react` over a run that `remoteRun` follows. */
const SELECTING = `
  import { createElement } from 'react';
  import { createRoot } from 'react-dom/client';
  import { useSelector } from '@xstate/react';
  import { remoteRun } from './fronts/react/index.ts';

  const run = remoteRun('/runs/' + location.hash.slice(1));
  function Page() {
    const state = useSelector(run, snapshot => snapshot.state);
    const text = useSelector(run, snapshot => snapshot.text);
    const call = useSelector(run, snapshot => snapshot.calls[0]);
    return createElement('main', null, state + ': ' + text, call &&
      createElement('button', { onClick: () => run.approve(call) }, 'Approve ' + call.name));
  }
  createRoot(document.body).render(createElement(Page));
`;

async function buildSelecting(): Promise<string> {
  const { outputFiles } = await esbuild({
    stdin: { contents: SELECTING, resolveDir: source('.'), loader: 'js' },
    bundle: true,
    write: false,
    format: 'esm',
    define: { 'process.env.NODE_ENV': '"production"' },
  });
  return outputFiles[0]?.text ?? '';
}

describe.skipIf(CHROMIUM === undefined)('the chat of examples/apps/react-chat', () => {
  let browser: Browser;
  let url = '';
  let close = () => {};

  beforeAll(async () => {
    const refund = tool({
      name: 'refund',
      description: 'Refunds.',
      input: z.object({ cents: z.number() }),
      approval: true,
      run: ({ cents }) => ({ refunded: cents }),
    });
    const call = { toolCalls: [{ name: 'refund', arguments: { cents: 4200 } }] };
    const model = scripted([call, { text: 'I refunded 42 dollars.' }, call, { text: 'Then not.' }]);
    const runs = runsApp({ agents: [createAgent({ name: 'refunds', model, tools: [refund] })] });
    const [root, opened] = await Promise.all([buildExample(), sharedChromium()]);
    browser = opened;
    const selecting = await buildSelecting();
    const app = new Hono().route('/', runs);
    app.get('/selecting.js', c => c.body(selecting, 200, { 'content-type': 'text/javascript' }));
    app.get('/selecting', c =>
      c.html(
        '<!doctype html><link rel="icon" href="data:,"><body><script type="module" src="/selecting.js"></script>',
      ),
    );
    app.use('/*', serveStatic({ root }));
    const port = await new Promise<number>(resolve => {
      const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, (info: AddressInfo) =>
        resolve(info.port),
      );
      close = () => {
        runs.close();
        server.close();
      };
    });
    url = `http://127.0.0.1:${port}/`;
  });
  afterAll(async () => {
    close();
    await closePages(browser);
  });

  test('shows an approval, runs the call, and continues with the next message', async () => {
    const watched = await WatchedPage.open(browser, url);
    const { page } = watched;
    const say = async (text: string) => {
      await page.getByLabel('Message').fill(text);
      await page.getByRole('button', { name: 'Send' }).click();
    };
    await say('Refund A-1');
    await page.getByText('resting.awaitingApproval').waitFor();
    expect(await page.getByRole('group').textContent()).toContain('4200');
    await page.getByRole('button', { name: 'Approve' }).click();
    await page.getByText('I refunded 42 dollars.').waitFor();
    await say('And A-2');
    const second = page.getByRole('region', { name: 'And A-2' });
    await second.getByRole('button', { name: 'Reject' }).click();
    await second.getByText('Then not.').waitFor();
    expect(await page.getByRole('group').count()).toBe(0);
    expect(await watched.findBarriers()).toEqual([]);
    expect(watched.problems).toEqual([]);
    await watched.close();
  });

  test('useSelector of @xstate/react shows a run that remoteRun follows, and it decides', async () => {
    const headers = { 'content-type': 'application/json' };
    const begun = await fetch(`${url}runs`, { method: 'POST', headers, body: '{"input":"Refund A-3"}' });
    const { runId } = (await begun.json()) as { runId: string };
    const watched = await WatchedPage.open(browser, `${url}selecting#${runId}`);
    const { page } = watched;
    await page.getByText('resting.awaitingApproval').waitFor();
    await page.getByRole('button', { name: 'Approve refund' }).click();
    await page.getByText('finished: I refunded 42 dollars.').waitFor();
    expect(await page.getByRole('button').count()).toBe(0);
    expect(watched.problems).toEqual([]);
    await watched.close();
  });
});
