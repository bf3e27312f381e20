import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';

const folder = mkdtempSync(join(tmpdir(), 'agentchart-runner-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Iterates a run in a child process, which is killed in the body of turn `KILL_AT`. */
const PROGRAM = `
import { appendFileSync } from 'node:fs';
import * as z from 'zod';
import { scripted } from '${new URL('../../adapters/scripted.ts', import.meta.url)}';
import { sqlite } from '${new URL('../../stores/sqlite.ts', import.meta.url)}';
import { createAgent, tool } from '${new URL('../../agent/index.ts', import.meta.url)}';
import { turns } from '${new URL('../../runner/index.ts', import.meta.url)}';
const note = line => appendFileSync(process.env.NOTES, line + '\\n');
const pay = tool({ name: 'pay', description: 'Pays.', input: z.object({}), run: (_, { key }) => note('paid ' + key) });
const model = scripted([{ toolCalls: [{ name: 'pay' }] }, { toolCalls: [{ name: 'pay' }] }, { text: 'Paid twice.' }]);
const agent = createAgent({ name: 'a', model, tools: [pay], store: sqlite(process.env.DB) });
const input = process.env.PICK_UP === '1' ? { runId: 'run-1' } : 'go';
const runner = turns(agent, input, process.env.PICK_UP === '1' ? {} : { runId: 'run-1' });
for await (const turn of runner) {
  note('turn ' + turn.number);
  if (String(turn.number) === process.env.KILL_AT) {
    if (process.env.RESPOND === '1') await runner.generateToolResponse();
    process.kill(process.pid, 'SIGKILL');
  }
}
note((await runner.done()).text);
await agent.close();
`;

function iterate(name: string, env: Record<string, string>) {
  const DB = join(folder, `${name}.db`);
  const NOTES = join(folder, `${name}.txt`);
  const child = spawnSync(process.execPath, ['--input-type=module', '-e', PROGRAM], {
    env: { ...process.env, DB, NOTES, ...env },
    encoding: 'utf8',
  });
  return { signal: child.signal, status: child.status, stderr: child.stderr, notes: () => lines(NOTES) };
}

const lines = (file: string) => readFileSync(file, 'utf8').trim().split('\n');

test('another process resumes a run that was killed in the loop body, and nothing runs twice', () => {
  expect(iterate('body', { KILL_AT: '2' }).signal).toBe('SIGKILL');
  const second = iterate('body', { PICK_UP: '1' });
  expect(second).toMatchObject({ status: 0, stderr: '' });
  expect(second.notes().map(line => line.replace(/ run-1:.*/, ''))).toEqual([
    'turn 1',
    'paid',
    'turn 2',
    'turn 2',
    'paid',
    'turn 3',
    'Paid twice.',
  ]);
});

test('calls that the killed body had already run do not run again', () => {
  expect(iterate('response', { KILL_AT: '1', RESPOND: '1' }).signal).toBe('SIGKILL');
  const notes = iterate('response', { PICK_UP: '1' }).notes();
  expect(notes.filter(line => line.startsWith('paid'))).toHaveLength(2);
  expect(new Set(notes.filter(line => line.startsWith('paid'))).size).toBe(2);
  expect(notes.at(-1)).toBe('Paid twice.');
});
