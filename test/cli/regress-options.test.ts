import { symlinkSync } from 'node:fs';
import { expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/index.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { Desk, LIBRARY } from '../support/cli/desk.ts';

const ARGS = ['regress', '--agent', 'talker.mjs', '--db', 'runs.db'];

async function makeDesk(): Promise<Desk> {
  const desk = new Desk([{ text: 'Hello.' }], { AGENTCHART_MODEL: 'scripted:turns.json' });
  desk.write(
    'talker.mjs',
    `import { createAgent } from '${LIBRARY}'; export default createAgent({ name: 'talker' });`,
  );
  const store = sqlite(desk.path('runs.db'));
  await createAgent({ name: 'talker', store, model: scripted([{ text: 'Hello.' }]) }).run('Hi.');
  await store.close();
  return desk;
}

test('regress writes nothing to the file of the recorded runs, under any name', async () => {
  const desk = await makeDesk();
  symlinkSync('runs.db', desk.path('link.db'));
  for (const out of ['runs.db', './runs.db', 'link.db']) {
    const { code, stderr } = await desk.run([...ARGS, '--out', out]);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: '--out: the recorded runs are there. Give another file.\n',
    });
  }
});

test('regress names the numbers that its options take', async () => {
  const desk = await makeDesk();
  const samples = await desk.run([...ARGS, '--samples', '101']);
  expect(samples).toMatchObject({
    code: 2,
    stderr: '--samples must be a whole number from 1 to 100, got "101".\n',
  });
  const last = await desk.run([...ARGS, '--last', '0']);
  expect(last).toMatchObject({ code: 2, stderr: '--last must be a whole number from 1 on, got "0".\n' });
});
