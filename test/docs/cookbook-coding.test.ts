import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeEach, describe, expect, test } from 'vitest';
import type { ScriptedTurn } from '../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import { importNamed } from '../support/docs/guide-blocks.ts';
import { makeTemporaryFolder } from '../support/temporary-folders.ts';

const PAGE = 'cookbook/coding-agent';
const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const { createCoder } = await importNamed(PAGE, 'coder.ts');
const { diff } = await importNamed(PAGE, 'diff.ts');

/** `version` of an empty file. */
const NEW = 'e3b0c44298fc';
const call = (name: string, given: Record<string, string> = {}): ScriptedTurn => ({
  toolCalls: [{ name, arguments: given }],
});
const READ = call('read_file', { path: 'a.txt' });
const DONE: ScriptedTurn = { text: 'Done.' };

let outside: string;
let folder: string;
beforeEach(() => {
  outside = makeTemporaryFolder('coder');
  folder = join(outside, 'project');
  mkdirSync(join(folder, '.git'), { recursive: true });
  mkdirSync(join(folder, 'sub'));
  writeFileSync(join(outside, 'secret.txt'), 'secret');
  writeFileSync(join(folder, '.git/config'), 'secret');
  symlinkSync(join(outside, 'secret.txt'), join(folder, 'link.txt'));
  symlinkSync(outside, join(folder, 'up'));
  symlinkSync(join(outside, 'new.txt'), join(folder, 'dangling.txt'));
});

const start = async (...turns: ScriptedTurn[]) =>
  await createAgent({ ...createCoder(folder).options, model: scripted(turns) }).start('Work.');

describe('paths', () => {
  test.each([
    '../secret.txt',
    '/etc/passwd',
    'sub/../../secret.txt',
    'link.txt',
    'up/secret.txt',
    'up/new.txt',
    'up/project/../secret.txt',
    'dangling.txt',
    '.git/config',
    'sub/../.git/config',
    '.env',
    'sub/.env',
    'none/new.txt',
    '..',
  ])('%s is neither read nor written, and nobody is asked', async path => {
    const write = call('write_file', { path, version: NEW, text: 'owned' });
    const run = await start(READ, call('read_file', { path }), call('list_files', { path }), write, DONE);
    const settled = await run.settled();
    expect(settled).toMatchObject({ status: 'finished' });
    const results = settled.status === 'finished' ? settled.results.slice(1) : [];
    expect(results.map(({ isError }) => isError)).toEqual([true, true, true]);
    expect(JSON.stringify(results)).not.toContain('"secret"');
    expect(readFileSync(join(outside, 'secret.txt'), 'utf8')).toBe('secret');
    expect(existsSync(join(outside, 'new.txt'))).toBe(false);
  });

  test('a link that leads outside by the time of the approval is not written through', async () => {
    const write = call('write_file', { path: 'later/a.txt', version: NEW, text: 'owned' });
    mkdirSync(join(folder, 'later'));
    const run = await start(READ, write, DONE);
    const settled = await run.settled();
    if (settled.status !== 'waiting') throw new Error('expected it to wait');
    renameSync(join(folder, 'later'), join(folder, 'before'));
    symlinkSync(outside, join(folder, 'later'));
    await run.approve(settled.approvals[0]?.callId ?? '');
    expect(await run.settled()).toMatchObject({ status: 'finished', results: [{}, { isError: true }] });
    expect(existsSync(join(outside, 'a.txt'))).toBe(false);
  });
});

describe('a write', () => {
  const write = call('write_file', { path: 'a.txt', version: NEW, text: 'one\n' });

  test('waits with its diff, and does not happen if it is rejected', async () => {
    const run = await start(READ, write, DONE);
    const settled = await run.settled();
    if (settled.status !== 'waiting') throw new Error('expected it to wait');
    expect(settled.approvals).toMatchObject([{ reason: 'a.txt, from line 1\n+ one\n' }]);
    await run.reject(settled.approvals[0]?.callId ?? '');
    expect(await run.settled()).toMatchObject({ status: 'finished' });
    expect(existsSync(join(folder, 'a.txt'))).toBe(false);
  });

  test('does not happen if the file changes while it waits', async () => {
    const run = await start(READ, write, DONE);
    const settled = await run.settled();
    if (settled.status !== 'waiting') throw new Error('expected it to wait');
    writeFileSync(join(folder, 'a.txt'), 'mine\n');
    await run.approve(settled.approvals[0]?.callId ?? '');
    expect(await run.settled()).toMatchObject({
      status: 'finished',
      results: [{}, { isError: true, output: 'a.txt has changed. Read it again.' }],
    });
    expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('mine\n');
  });

  test('is no end as long as the tests fail', async () => {
    writeFileSync(join(folder, 'a.test.mjs'), 'throw new Error("it is broken");\n');
    const run = await start(READ, write, call('run_tests'), DONE, DONE, DONE);
    const settled = await run.settled();
    if (settled.status !== 'waiting') throw new Error('expected it to wait');
    await run.approve(settled.approvals[0]?.callId ?? '');
    expect(await run.settled()).toMatchObject({ status: 'failed', error: { code: 'answer-blocked' } });
    expect(JSON.stringify(run.context.transcript)).toContain('it is broken');
  });
});

test.each([
  ['a\nb\nc\nd\ne', 'a\nb\nX\nd\ne', ['  a', '  b', '- c', '+ X', '  d', '  e']],
  ['a\nb', 'a\nb\nc', ['  a', '  b', '+ c']],
  ['a\na\na', 'a\na', ['  a', '  a', '- a']],
  ['same', 'same', ['  same']],
])('the diff of %j and %j', (before, after, lines) => {
  expect(diff('f', before, after).split('\n').slice(1)).toEqual(lines);
});

test('in a shell, the run waits and another process approves', async () => {
  writeFileSync(join(folder, 'script.json'), JSON.stringify([READ, WRITE_IN_SHELL, call('run_tests'), DONE]));
  const coder = `${ROOT}test-results/pages/${PAGE}/coder.ts`;
  const agentchart = async (...args: string[]) => {
    const command = ['--import', `${ROOT}test/support/use-sources.ts`, `${ROOT}cli/main.ts`, ...args];
    const env = { ...process.env, AGENTCHART_MODEL: 'scripted:script.json', NO_COLOR: '1' };
    const ended = promisify(execFile)(process.execPath, command, { cwd: folder, env });
    return await ended.catch(error => error as { stdout: string; stderr: string });
  };
  const waiting = await agentchart('run', '--agent', coder, 'Work.');
  expect(waiting.stdout + waiting.stderr).toContain('a.txt, from line 1');
  const [, runId = '', callId = ''] = /approve (\S+) (\S+)/.exec(waiting.stdout + waiting.stderr) ?? [];
  const ended = await agentchart('approve', runId, callId, '--by', 'ada');
  expect(ended.stdout).toContain('Done.');
  expect(readFileSync(join(folder, 'a.txt'), 'utf8')).toBe('one\n');
});

const WRITE_IN_SHELL = call('write_file', { path: 'a.txt', version: NEW, text: 'one\n' });
