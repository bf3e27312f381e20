import { expect, test } from 'vitest';
import { calling, Desk, REFUND } from '../support/cli/desk.ts';

const done = { text: 'Done.' };

test('runs finds runs by label, prints what they wait for, and says how to get the next page', async () => {
  const desk = new Desk([calling(REFUND), done]);
  const seven = await desk.begin('--label', 'user=7', '--label', 'tenant=a', '--title', 'Refund of A-1');
  const eight = await desk.begin('--label', 'user=8');
  const [waiting, none, page, refused, unknown] = await Promise.all([
    desk.run(['runs', '--label', 'user=7', '--waiting']),
    desk.run(['runs', '--label', 'user=9', '--json']),
    desk.run(['runs', '--limit', '1', '--json', '--agent', 'desk', '--since', '2020-01-01']),
    desk.run(['runs', '--label', 'user']),
    desk.run(['runs', '--since', 'yesterday']),
  ]);
  expect(waiting).toMatchObject({ code: 0, stderr: '' });
  expect(waiting.stdout).toMatch(new RegExp(`${seven.runId} +waiting .* Refund of A-1 +approval of refund`));
  expect(waiting.stdout).not.toContain(eight.runId);
  expect(none).toMatchObject({ code: 0, stdout: '', stderr: '' });
  expect(JSON.parse(page.stdout)).toMatchObject({ runId: eight.runId, labels: { user: '8' }, title: 'go' });
  const cursor = /--cursor (\S+)/.exec(page.stderr)?.[1] ?? expect.unreachable('no cursor');
  const next = ['runs', '--limit', '1', '--json', '--agent', 'desk', '--since', '2020-01-01'];
  const [rest, other] = await Promise.all([
    desk.run([...next, '--cursor', cursor]),
    desk.run(['runs', '--cursor', cursor]),
  ]);
  expect(JSON.parse(rest.stdout)).toMatchObject({ runId: seven.runId });
  expect(rest.stderr).toBe('');
  for (const [ended, part] of [
    [refused, 'NAME=VALUE'],
    [unknown, '--since must be'],
    [other, 'cursor: from a list with another filter'],
  ] as const) {
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain(part);
  }
});
