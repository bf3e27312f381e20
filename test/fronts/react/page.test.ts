import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { serve } from '@hono/node-server';
import { serveStatic } from '@hono/node-server/serve-static';
import { Hono } from 'hono';
import type { Browser } from 'playwright-core';
import { build } from 'vite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { runsApp } from '../../../server/index.ts';
import { createAgent, tool } from '../../../tools/agent/index.ts';
import { makeTemporaryFolder } from '../../support/temporary-folders.ts';
import { CHROMIUM, launchChromium, WatchedPage } from '../../support/visualizer/browser.ts';

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
    const [root, opened] = await Promise.all([buildExample(), launchChromium()]);
    browser = opened;
    const app = new Hono().route('/', runs).use('/*', serveStatic({ root }));
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
    await browser.close();
  });

  test('shows an approval, runs the call, and goes on with the next message', async () => {
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
});
