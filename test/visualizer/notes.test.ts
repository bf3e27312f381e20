import { describe, expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, memory, type Store } from '../../agent/index.ts';
import { notes } from '../../tools/notes/index.ts';
import { calls } from '../support/engine/agents.ts';
import { CHROMIUM } from '../support/visualizer/browser.ts';
import { HOSTILE } from '../support/visualizer/demo-agents.ts';
import { servePages } from '../support/visualizer/visits.ts';

describe.skipIf(CHROMIUM === undefined)('the view of notes', () => {
  let store: Store;
  const desk = servePages(() => {
    store = memory();
    return [createAgent({ name: 'desk', model: scripted([{ text: 'Hello.' }]), store })];
  });

  /** Has a run of user 7 note these texts, and returns the id of the run that keeps them. */
  async function note(texts: Record<string, string>): Promise<string> {
    const commands = Object.entries(texts).map(([path, file_text]): [string, Record<string, string>] => [
      'memory',
      { command: 'create', path, file_text },
    ]);
    const model = scripted([calls(...commands), { text: 'Noted.' }]);
    const agent = createAgent({ name: 'desk', model, tools: [notes({ by: 'user' })], store });
    await agent.run('I prefer tea.', { labels: { user: '7' } });
    const [kept] = (await store.list({ agent: 'notes' })).runs;
    return kept?.runId ?? '';
  }

  test('a user’s notes are in the list of its runs, and open as texts instead of an empty run', async () => {
    await note({ '/memories/b.md': 'Prefers **tea**.', '/memories/a/c.md': '# Orders' });
    const watched = await desk.visit('/runs?label=user%3D7');
    const { page } = watched;
    const row = page.locator('.run-row', { hasText: 'Notes of user 7' });
    await expect.poll(() => row.locator('.status').innerText()).toBe('notes');
    await row.getByRole('link').click();
    await page.getByRole('heading', { name: 'Notes of user 7' }).waitFor();
    await page.getByText(/^2 notes · 24\sB · changed (just now|\d+ s ago)$/).waitFor();
    const found = await page.locator('main section').allInnerTexts();
    expect(found.map(text => text.replaceAll(/\s+/g, ' ').trim())).toEqual([
      '/memories/a/c.md 8 B Orders Source',
      '/memories/b.md 16 B Prefers tea. Source',
    ]);
    expect(await page.title()).toBe('Notes of user 7 · Agentchart');
    await page.getByRole('link', { name: 'Journal of the notes' }).click();
    await page.getByRole('tab', { name: 'Journal' }).waitFor();
    await page.getByText('run.noted', { exact: true }).first().waitFor();
    await page.goBack();
    await page.getByRole('link', { name: 'Runs with user=7' }).click();
    await page.getByText('I prefer tea.').waitFor();
    expect(watched.problems).toEqual([]);
  });

  test('a note that is written meanwhile appears, and deleted notes are gone', async () => {
    const runId = await note({ '/memories/a.md': 'First.' });
    const { page } = await desk.visit(`/runs/${runId}`);
    await page.getByText('First.').waitFor();
    await note({ '/memories/b.md': 'Second.' });
    await page.getByText('Second.').waitFor();
    await store.redact(runId, { paths: ['/3/text'] });
    await page.reload();
    await page.getByText(/^\[redacted sha256:/).waitFor();
    await fetch(`${desk.url}/runs/${runId}`, { method: 'DELETE' });
    await page.getByText('Run not found').waitFor();
  });

  test('a run that keeps no notes is a run, whatever its id', async () => {
    const agent = createAgent({ name: 'desk', model: scripted([{ text: 'Hello.' }]), store });
    await note({ '/memories/a.md': 'First.' });
    const run = await agent.start('go', { runId: 'notes_1', labels: { user: '7' } });
    await run.settled();
    const watched = await desk.visit('/runs/notes_1');
    await watched.page.getByRole('tab', { name: 'Conversation' }).waitFor();
    await watched.page.getByText('Hello.').first().waitFor();
    expect(watched.problems).toEqual([]);
  });

  test('hostile texts stay texts, and nothing is wider than a phone', async () => {
    const text = `${HOSTILE.markup}\n\n${HOSTILE.order} ${HOSTILE.ansi} ${'x'.repeat(2_000)}`;
    const runId = await note({ [`/memories/${'a'.repeat(120)}/<img src=x>.md`]: text });
    const watched = await desk.visit(`/runs/${runId}`, { width: 390 });
    await watched.page.locator('main .markdown', { hasText: '<img src=' }).waitFor();
    expect(await watched.page.evaluate('window.owned ?? document.title')).not.toBe('owned');
    await expect.poll(() => watched.page.locator('img').count()).toBe(0);
    expect(await watched.page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
    expect(watched.problems).toEqual([]);
  });

  test('of many notes, the texts are folded, and open by the keyboard', async () => {
    const texts = Array.from({ length: 12 }, (_, at) => [`/memories/${at + 10}.md`, `Text ${at + 10}.`]);
    const { page } = await desk.visit(`/runs/${await note(Object.fromEntries(texts))}`);
    await page.getByText('/memories/10.md').waitFor();
    await expect.poll(() => page.getByText('Text 10.').count()).toBe(0);
    await page.locator('summary').first().press('Enter');
    await page.getByText('Text 10.').waitFor();
  });
});
