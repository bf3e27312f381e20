import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { StoryLine } from '../../../server/index.ts';
import { Desk } from '../../support/cli/desk.ts';
import { DONE, REFUND } from '../../support/server/runs-app.ts';
import { ServedDesk } from '../../support/server/served-desk.ts';

/** `agentchart serve`, as a process, and the clients of docs/fronts.md. */

const page = readFileSync(new URL('../../../docs/fronts.md', import.meta.url), 'utf8');
const [, program = ''] = /```python\n([\s\S]*?)```/.exec(page) ?? [];
const [, pipe = ''] = /```sh\n([\s\S]*?)```/.exec(page) ?? [];
const hasShell = ['curl', 'jq'].every(name => spawnSync(name, ['--version']).status === 0);
const hasPython = spawnSync('python3', ['--version']).status === 0;

const linesIn = (text: string) =>
  text.split('\n').flatMap(line => (line === '' ? [] : [JSON.parse(line) as StoryLine]));

describe('the story of `agentchart serve`', () => {
  test('continues a run after the server was killed and started again', async () => {
    const desk = new Desk([REFUND, DONE]);
    const before = await ServedDesk.start(desk);
    const asked = linesIn(await (await before.post('/story', { input: 'go' })).text());
    await before.stop('SIGKILL');
    const after = await ServedDesk.start(desk);
    const open = asked.flatMap(line => (line.type === 'call.asked' ? [line.open] : []));
    const runId = asked[0]?.type === 'run' ? asked[0].runId : '';
    const answers = open.map(({ id }) => ({ id, approved: true }));
    const rest = linesIn(await (await after.post(`/story/${runId}`, { answers })).text());
    expect(rest.at(-1)).toMatchObject({ type: 'settled', status: 'finished', text: 'Done.' });
    const whole = linesIn(await (await fetch(`${after.url}/story/${runId}?follow=1`)).text());
    expect(whole.at(-1)).toEqual(rest.at(-1));
    await after.stop();
  });

  test.skipIf(!hasShell)(
    'prints its text and its questions with curl and jq, as docs/fronts.md shows (needs both)',
    async () => {
      expect(pipe).toMatch(/\|\s+jq /);
      const served = await ServedDesk.start(new Desk([{ ...REFUND, text: 'I pay.' }, DONE]));
      const script = `set -e\n${pipe}`.replace('http://127.0.0.1:4100', served.url);
      expect(execFileSync('sh', ['-c', script], { encoding: 'utf8' })).toMatch(
        /^I pay\.\n\S+: refund \{"orderId":"A-1","cents":4200\}\?\n$/,
      );
      await served.stop();
    },
  );

  test.skipIf(!hasPython)('runs the Python client of docs/fronts.md (needs python3)', async () => {
    expect(
      program
        .trim()
        .split('\n')
        .filter(line => line !== '').length,
    ).toBeLessThanOrEqual(20);
    const desk = new Desk([REFUND, DONE]);
    const served = await ServedDesk.start(desk);
    const printed = execFileSync('python3', ['-c', program, served.url, 'Refund A-1.'], {
      input: 'y\n',
      encoding: 'utf8',
    });
    expect(printed).toContain('refund ');
    expect(printed).toContain('? [y/n] ');
    expect(printed).toContain('Done.');
    await served.stop();
  });
});
