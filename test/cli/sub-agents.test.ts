import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { RunView } from '../../protocol/run-view.ts';
import { built } from '../support/built.ts';
import { calling, Desk, eventsOf } from '../support/cli/desk.ts';

const FAMILY = built('test/support/cli/fixtures/family.ts');
const SCRIPT = [calling(['clerk', { input: 'Pay 42 euros.' }]), { text: 'All is paid.' }];

/** A run whose sub-agent waits for an approval, and the ids of both runs. */
async function beginWaiting() {
  const desk = new Desk(SCRIPT);
  const begun = await desk.run(['run', '--agent', FAMILY, '--json', 'go'], desk.model);
  expect(begun.code).toBe(3);
  const parent = eventsOf(begun.stdout)[0]?.runId ?? '';
  const suspended = eventsOf(begun.stdout).find(({ type }) => type === 'tool.suspended');
  const child = suspended?.type === 'tool.suspended' ? suspended.childRunId : '';
  return { desk, parent, child };
}

describe.concurrent('a run whose sub-agent waits for an approval', () => {
  test('reports it, and the printed command continues the sub-agent and then the run', async () => {
    const { desk, parent, child } = await beginWaiting();
    const shown = await desk.run(['show', parent]);
    expect(shown.stdout).toContain('pay waits for approval');
    expect(shown.stdout).toContain(`clerk is a sub-agent and waits in run ${child}`);
    const [, command = ''] = new RegExp(`approve (${child} \\S+ --digest \\S+)`).exec(shown.stdout) ?? [];
    expect((await desk.run(['show', child])).stdout).toMatch(new RegExp(`parent +${parent}`));
    const approved = await desk.run(['approve', ...command.split(' '), '--by', 'ada']);
    expect(approved.code).toBe(0);
    expect(approved.stdout).toContain('All is paid.');
    expect(readFileSync(desk.path('paid'), 'utf8').trim().split('\n')).toHaveLength(1);
    expect(JSON.parse((await desk.run(['show', parent, '--json'])).stdout)).toMatchObject({
      status: 'finished',
      results: [{ name: 'clerk', output: 'The clerk has paid.' }],
    });
  });

  test('also accepts the decision itself; a second decision is answered with the decider of the first', async () => {
    const { desk, parent, child } = await beginWaiting();
    expect((await desk.run(['approve', parent, 'call_0_0', '--by', 'ada'])).code).toBe(0);
    const again = await desk.run(['approve', child, 'call_0_0', '--by', 'bob']);
    expect(again.code).toBe(4);
    expect(again.stderr).toContain('approved by ada');
  });

  test('cancels its sub-agent when it is cancelled', async () => {
    const { desk, parent, child } = await beginWaiting();
    expect((await desk.run(['cancel', parent])).code).toBe(0);
    const listed = await desk.run(['runs', '--json']);
    expect(listed.stdout.match(/"status":"cancelled"/g)).toHaveLength(2);
    expect((await desk.run(['approve', child, 'call_0_0'])).code).toBe(4);
  });

  test('is decided over HTTP, through either run', async ({ expect }) => {
    const { desk, parent, child } = await beginWaiting();
    const server = desk.start(['serve', '--agent', FAMILY, '--port', '0'], desk.model);
    const address = /http:\/\/127\.0\.0\.1:\d+/.exec(await server.printed('http://127.0.0.1:'))?.[0] ?? '';
    const read = async (runId: string) =>
      (await fetch(`${address}/runs/${runId}`)).json() as Promise<RunView>;
    expect(await read(parent)).toMatchObject({
      status: 'waiting',
      settled: { approvals: [{ name: 'pay', runId: child }] },
      calls: [{ name: 'clerk', waitsFor: child }],
    });
    const answered = await fetch(`${address}/runs/${child}/approve`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ callId: 'call_0_0', by: 'ada' }),
    });
    expect(answered.status).toBe(200);
    await expect.poll(async () => (await read(parent)).status).toBe('finished');
    expect(await read(child)).toMatchObject({ status: 'finished', parent: { runId: parent } });
    server.child.kill('SIGTERM');
    await server.ended;
  });
});
