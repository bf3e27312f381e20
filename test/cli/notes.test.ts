import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/index.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { notes } from '../../tools/notes/index.ts';
import { Desk } from '../support/cli/desk.ts';
import { calls } from '../support/engine/agents.ts';

const NOTES = {
  '/memories/preferences.md': '# Preferences\n- tea\n',
  '/memories/people/ann.md': 'Her sister. \u001b[31m',
};

async function noted(): Promise<Desk> {
  const desk = new Desk([]);
  mkdirSync(dirname(desk.store), { recursive: true });
  const store = sqlite(desk.store);
  const turns = Object.entries(NOTES).map(([path, file_text]) =>
    calls(['memory', { command: 'create', path, file_text }]),
  );
  const model = scripted([...turns, { text: 'Noted.' }]);
  const agent = createAgent({ name: 'desk', model, tools: [notes({ by: 'user' })], store });
  await agent.run('Note it.', { labels: { user: '7' } });
  await store.close();
  return desk;
}

test('notes lists what is noted under a label, and says how to delete it, which deletes it', async () => {
  const desk = await noted();
  const { code, stdout } = await desk.run(['notes', '--label', 'user=7']);
  const lines = stdout.trimEnd().split('\n');
  expect([code, lines.slice(0, 2)]).toEqual([
    0,
    ['17B  /memories/people/ann.md', '20B  /memories/preferences.md'],
  ]);
  expect(lines[2]).toMatch(/^2 notes of user=7, changed \d+(\.\d)? m?s ago\.$/);
  const [, runId = ''] =
    /^To delete them, with their history: .*agentchart.* delete (notes_\w+)$/.exec(lines[3] ?? '') ?? [];
  const shown = await desk.run(['show', runId]);
  expect(shown.stdout).toMatch(/It keeps notes\. To read them: .*agentchart.* notes --label user=7\n$/);
  expect((await desk.run(['delete', runId])).stdout).toBe(`Deleted ${runId}\n`);
  const none = await desk.run(['notes', '--label', 'user=7']);
  expect([none.code, none.stdout]).toEqual([0, 'There are no notes of user=7.\n']);
});

test('delete with more labels than that of the notes leaves them, and names them', async () => {
  const desk = await noted();
  const more = ['delete', '--label', 'tenant=a', '--label', 'user=7'];
  const { code, stdout } = await desk.run(more);
  expect([code, stdout]).toEqual([
    0,
    expect.stringMatching(
      /^No runs match\.\nThe notes of user=7 stay\. To delete them, with all runs of that label: .*agentchart.* delete --label user=7\n$/,
    ),
  ]);
  const json = await desk.run([...more, '--json']);
  expect(JSON.parse(json.stdout)).toEqual({
    labels: { tenant: 'a', user: '7' },
    deleted: [],
    notesOf: ['user=7'],
  });
  expect((await desk.run(['delete', '--label', 'user=7'])).stdout).toMatch(
    /^Deleted run_\w+\nDeleted notes_\w+\n$|^Deleted notes_\w+\nDeleted run_\w+\n$/,
  );
  expect((await desk.run(more)).stdout).toBe('No runs match.\n');
});

test('notes --json prints a line for each note, and --path one note', async () => {
  const desk = await noted();
  const { stdout } = await desk.run(['notes', '--label', 'user=7', '--json']);
  const lines = stdout.trimEnd().split('\n');
  expect(lines.map(line => JSON.parse(line))).toEqual([
    { path: '/memories/people/ann.md', bytes: 17, text: NOTES['/memories/people/ann.md'] },
    { path: '/memories/preferences.md', bytes: 20, text: NOTES['/memories/preferences.md'] },
  ]);
  const print = async (path: string, ...rest: string[]) =>
    await desk.run(['notes', '--label', 'user=7', '--path', path, ...rest]);
  expect((await print('/memories/preferences.md')).stdout).toBe(NOTES['/memories/preferences.md']);
  expect((await print('/memories/people/ann.md')).stdout).toBe('Her sister. \\x1b[31m\n');
  expect((await print('/memories/people/ann.md', '--json')).stdout).toBe(`${lines[0]}\n`);
  const missing = await print('/memories/tea.md');
  expect([missing.code, missing.stderr]).toEqual([
    2,
    'There is no note /memories/tea.md of user=7. Leave --path out to list the notes.\n',
  ]);
});

test('notes needs one label, and a store that exists', async () => {
  const desk = await noted();
  for (const wrong of [[], ['--label', 'user'], ['--label', 'a=b', '--label', 'c=d']])
    expect((await desk.run(['notes', ...wrong])).code).toBe(2);
  expect((await new Desk([]).run(['notes', '--label', 'user=7'])).code).toBe(2);
});
