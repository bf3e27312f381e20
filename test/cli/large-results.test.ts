import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { calling, Desk } from '../support/cli/desk.ts';

const WHOLE = { head: 'begins', rows: 'é漢\u2028'.repeat(300_000), tail: 'ends' };

async function finish() {
  const desk = new Desk([calling('dump'), { text: 'Done.' }]);
  const { runId, code } = await desk.begin();
  expect(code).toBe(0);
  return { desk, runId };
}

test('show prints the size of a large result and the command to read it, which writes all of it', async () => {
  const { desk, runId } = await finish();
  const shown = await desk.run(['show', runId]);
  expect(shown.stdout).toContain('2.3 MiB; full result: ');
  expect(shown.stdout).toContain(`show ${runId} --result call_0_0`);
  const whole = await desk.run(['show', runId, '--result', 'call_0_0']);
  expect(JSON.parse(whole.stdout)).toEqual(WHOLE);
  expect(await desk.run(['show', runId, '--result', 'other'])).toMatchObject({ code: 2, stdout: '' });
});

test('an export holds a large result, one part per line, and replay checks it against its digest', async () => {
  const { desk, runId } = await finish();
  expect(await desk.run(['replay', runId])).toMatchObject({ code: 0 });
  expect(await desk.run(['export', runId, '--out', 'run.json'])).toMatchObject({ code: 0 });
  const file = desk.path('run.json');
  const text = readFileSync(file, 'utf8');
  const parts = text.split('\n').filter(line => line.startsWith('{"blob"'));
  expect(parts.length).toBeGreaterThan(5);
  expect(Math.max(...parts.map(part => part.length))).toBeLessThan(1024 * 1024);
  expect(statSync(file).size).toBeLessThan(8_000_000);
  expect(await desk.run(['replay', 'run.json'])).toMatchObject({ code: 0 });

  writeFileSync(file, text.replace('ends\\"}"}', 'Ends\\"}"}').replace('ends\\"}', 'Ends\\"}'));
  const changed = await desk.run(['replay', 'run.json']);
  expect(changed.code).toBe(1);
  writeFileSync(file, text.slice(0, text.indexOf('{"blob"')));
  const missing = await desk.run(['replay', 'run.json']);
  expect(missing).toMatchObject({ code: 1, stderr: expect.stringContaining('missing from the export') });
  writeFileSync(file, `${text}nonsense\n`);
  expect(await desk.run(['replay', 'run.json'])).toMatchObject({ code: 2 });
});

test('an export that fails leaves no file behind', async () => {
  const { desk, runId } = await finish();
  const store = new DatabaseSync(desk.path('.agentchart/runs.db'));
  store.exec('UPDATE blobs SET sum = sum + 1 WHERE start = (SELECT max(start) FROM blobs)');
  store.close();
  const failed = await desk.run(['export', runId, '--out', 'run.json']);
  expect(failed.code).not.toBe(0);
  expect(existsSync(desk.path('run.json'))).toBe(false);
});

test('show --result and export write to stdout with --json too', async () => {
  const { desk, runId } = await finish();
  const whole = await desk.run(['show', runId, '--result', 'call_0_0', '--json']);
  expect(JSON.parse(whole.stdout)).toEqual(WHOLE);
  const exported = await desk.run(['export', runId, '--json']);
  expect(exported).toMatchObject({ code: 0, stderr: '' });
  expect(JSON.parse(exported.stdout.split('\n', 1)[0] ?? '')).toMatchObject({ run: { runId } });
});

test('show --result and export end with 0 for a reader that stops reading', async () => {
  const { desk, runId } = await finish();
  for (const args of [
    ['show', runId, '--result', 'call_0_0'],
    ['export', runId],
  ]) {
    const started = desk.start(args);
    started.child.stdout.destroy();
    expect(await started.ended).toMatchObject({ code: 0, stderr: '' });
  }
});

test('a test generated from a run replays its large result unchanged', async () => {
  const { desk, runId } = await finish();
  expect(await desk.run(['export', runId, '--test', '--out', 'run.test.ts'])).toMatchObject({
    code: 0,
    stderr: '',
  });
});
