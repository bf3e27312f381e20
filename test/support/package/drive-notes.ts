import type { Browser, Page } from 'playwright-core';
import { expect } from 'vitest';
import { DialectProvider } from '../responses/dialect-provider.ts';
import { WatchedPage } from '../visualizer/browser.ts';

/** Starts a provider whose model adds a note, deletes one, and answers. */
export async function startNotesProvider() {
  const provider = await DialectProvider.listen();
  provider.play(
    { calls: [{ name: 'add_note', arguments: { text: 'Milk' } }] },
    { calls: [{ name: 'delete_note', arguments: { id: 'n1' } }] },
    { text: 'Milk is on the list, the bread is off.' },
  );
  return {
    environment: provider.environment,
    /** The models of the requests. */
    models: () => provider.requests.map(({ model }) => model),
    [Symbol.asyncDispose]: () => provider.close(),
  };
}

/** Uses the page of `examples/apps/browser-tab` at `url` as a person would: asks, reloads the tab, approves. */
export async function driveNotes(browser: Browser, url: string): Promise<void> {
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
  await page.getByText('Milk is on the list', { exact: false }).waitFor();
  await page.getByText('finished').waitFor();
  expect(await page.locator('#notes li').allTextContents()).toEqual(['Milk']);
  expect(await page.evaluate('sessionStorage.length')).toBe(0);
  expect(watched.problems).toEqual([]);
  await watched.close();
}

async function expectResting(page: Page): Promise<void> {
  await page.getByText('resting.awaitingApproval').waitFor();
  expect(await page.locator('#calls').textContent()).toContain('delete_note {"id":"n1"}: gated');
}
