import { expect, test } from 'vitest';
import { AGENT, calling, Desk, REFUND } from '../support/cli/desk.ts';

const SEVEN = ['--label', 'user=7'];
const say = (desk: Desk, input: string, ...rest: string[]) =>
  desk.run(['run', '--agent', AGENT, '--thread', 'c1', ...rest, input], desk.model);

/** Two users with a thread `c1`: of user 7 with two runs, of user 8 with one. */
async function talked(): Promise<Desk> {
  const desk = new Desk([{ text: 'Hello.' }, { text: 'Good bye. \u001b[31m' }]);
  for (const [input, user] of [
    ['I am Ada.', '7'],
    ['I am Ben.', '8'],
    ['Bye.', '7'],
  ] as const)
    expect((await say(desk, input, '--label', `user=${user}`)).code).toBe(0);
  return desk;
}

test('run --thread continues a thread, and threads and thread show it', async () => {
  const desk = await talked();
  const { stdout } = await desk.run(['threads']);
  expect(stdout.split('\n').map(line => line.replace(/\d+(\.\d+)? m?s ago/, 'now'))).toEqual([
    'c1 user=7  finished   now  Bye.',
    'c1 user=8  finished   now  I am Ben.',
    '',
  ]);
  expect((await desk.run(['threads', '--label', 'user=9'])).stdout).toBe('No threads match.\n');
  const page = await desk.run(['threads', '--limit', '1', '--json']);
  expect(JSON.parse(page.stdout)).toMatchObject({ id: 'c1', labels: { user: '7' }, latest: { place: 2 } });
  const [, cursor = ''] = /--cursor (\S+)/.exec(page.stderr) ?? [];
  expect((await desk.run(['threads', '--limit', '1', '--cursor', cursor])).stdout).toContain('user=8');
  const shown = (await desk.run(['thread', 'c1', ...SEVEN])).stdout.split('\n');
  expect(shown.slice(0, 4)).toEqual([
    'user: I am Ada.',
    'assistant: Hello.',
    'user: Bye.',
    'assistant: Good bye. \\x1b[31m',
  ]);
  expect(shown[6]).toMatch(/^2 runs, 2 turns, \d+ tokens\.$/);
  expect(shown[7]).toMatch(/agentchart.* delete --thread c1 --label user=7$/);
  const whole = JSON.parse((await desk.run(['thread', 'c1', ...SEVEN, '--json'])).stdout);
  expect(whole).toMatchObject({ id: 'c1', labels: { user: '7' }, runs: [{ place: 1 }, { place: 2 }] });
  expect(whole.messages).toHaveLength(4);
});

test('delete --thread deletes one thread, and asks for labels if several have the id', async () => {
  const desk = await talked();
  for (const command of [
    ['thread', 'c1'],
    ['delete', '--thread', 'c1'],
  ]) {
    const refused = await desk.run(command);
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringContaining('Several threads have the id "c1"'),
    ]);
  }
  const deleted = await desk.run(['delete', '--thread', 'c1', ...SEVEN]);
  expect(deleted.stdout.trimEnd().split('\n')).toEqual([
    expect.stringMatching(/^Deleted run_/),
    expect.stringMatching(/^Deleted run_/),
  ]);
  expect((await desk.run(['thread', 'c1'])).stdout).toContain('I am Ben.');
  const gone = await desk.run(['thread', 'c1', ...SEVEN]);
  expect([gone.code, gone.stderr]).toEqual([2, expect.stringContaining('no thread "c1"')]);
  expect((await desk.run(['delete', '--thread', 'c1', '--cascade'])).code).toBe(2);
});

test('run --thread sends to the open run of the thread, and shows only what follows', async () => {
  const desk = new Desk([calling(REFUND), { text: 'It waits.' }]);
  const first = await say(desk, 'Refund A-1.');
  const second = await say(desk, 'Is it done?');
  expect(JSON.parse((await desk.run(['thread', 'c1', '--json'])).stdout).runs).toHaveLength(1);
  expect([first.code, second.code]).toEqual([3, 3]);
  expect(second.stdout).not.toContain('Refund A-1.');
});
