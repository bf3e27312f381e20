import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Browser, Page } from 'playwright-core';
import { expect } from 'vitest';
import { DialectProvider } from '../responses/dialect-provider.ts';
import { launchChromium, WatchedPage } from '../visualizer/browser.ts';

type NotesApp = {
  /** The folder of the app, with the built page. */
  folder: string;
  /** The compiled `proxy.ts`. */
  proxy: string;
  env: NodeJS.ProcessEnv;
};

/** Serves `examples/apps/browser-tab` with its proxy, and uses it with a model that adds a note and deletes one. */
export async function driveNotes({ folder, proxy, env }: NotesApp): Promise<void> {
  const provider = await DialectProvider.listen();
  provider.play(
    { calls: [{ name: 'add_note', arguments: { text: 'Milk' } }] },
    { calls: [{ name: 'delete_note', arguments: { id: 'n1' } }] },
    { text: 'Milk is on the list, the bread is off.' },
  );
  const server = spawn(process.execPath, [proxy], {
    cwd: folder,
    env: { ...env, ...provider.environment, PORT: '0', OPENAI_MODEL: 'chosen' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(server, 'close');
  const browser = await launchChromium();
  try {
    const { port } = JSON.parse(String((await once(server.stdout, 'data'))[0]));
    const url = `http://127.0.0.1:${port}/`;
    await askAndApprove(browser, url);
    expect(provider.requests.map(({ model }) => model)).toEqual(['chosen', 'chosen', 'chosen']);
    const foreign = await fetch(`${url}v1/chat/completions`, { method: 'POST', body: '{}' });
    expect(foreign.status).toBe(403);
  } finally {
    await browser.close();
    server.kill();
    await Promise.all([ended, provider.close()]);
  }
}

/** Uses the page as a person would: asks, reloads the tab while an approval waits, and approves. */
async function askAndApprove(browser: Browser, url: string): Promise<void> {
  const watched = await WatchedPage.open(browser, url);
  const { page } = watched;
  await page.evaluate(`localStorage.setItem('notes', '[{ "id": "n1", "text": "Buy bread" }]')`);
  await page.getByRole('textbox').fill('Add milk, and delete the bread.');
  await page.getByRole('button', { name: 'Ask' }).click();
  await expectResting(page);
  await page.reload();
  await expectResting(page);
  expect(await page.locator('#notes li').allTextContents()).toEqual(['Buy bread', 'Milk']);
  await page.getByRole('button', { name: 'Approve' }).click();
  await page.getByText('finished', { exact: true }).waitFor();
  expect(await page.locator('#answer').textContent()).toBe('Milk is on the list, the bread is off.');
  expect(await page.locator('#notes li').allTextContents()).toEqual(['Milk']);
  expect(await page.evaluate('sessionStorage.length')).toBe(0);
  expect(watched.problems).toEqual([]);
  await watched.close();
}

async function expectResting(page: Page): Promise<void> {
  await page.getByText('resting.awaitingApproval', { exact: true }).waitFor();
  expect(await page.locator('#calls').textContent()).toContain('delete_note {"id":"n1"}: gated');
}
