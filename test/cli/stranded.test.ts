import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { built } from '../support/built.ts';
import { calling, Desk, eventsOf, LIBRARY, REFUND, typesOf } from '../support/cli/desk.ts';

const FALLBACK = built('test/support/cli/fixtures/fallback.ts');
const FAMILY = built('test/support/cli/fixtures/family.ts');

/** A run of version 1 that waits for an approval, and a module of version 2, which lacks the model of the run. */
async function beginVersions() {
  const desk = new Desk([]);
  const begun = await desk.run(['run', '--agent', FALLBACK, '--json', 'go']);
  expect(begun.code).toBe(3);
  desk.write(
    'second.mjs',
    `import { createAgent } from '${LIBRARY}';
     import first from '${FALLBACK}';
     export default createAgent({ ...first.options, version: '2', model: first.options.model[0] });`,
  );
  return { desk, runId: eventsOf(begun.stdout)[0]?.runId ?? '' };
}

describe.concurrent('a decision whose run this process cannot drive', () => {
  test('is recorded, says that no process drives the run and why, and starts nothing', async () => {
    const { desk, runId } = await beginVersions();
    const approved = await desk.run(['approve', runId, 'call_0_0', '--agent', 'second.mjs', '--by', 'ada']);
    expect(approved.code).toBe(2);
    expect(approved.stderr).toContain(
      `The command is recorded, but no process drives run ${runId}: it uses model 2 of its list, and the agent has 1. Give the agent as many models as it had`,
    );
    expect(typesOf(await desk.journal(runId)).slice(-1)).toEqual(['approval.decided']);
    expect(existsSync(desk.path('paid'))).toBe(false);

    expect((await desk.run(['resume', runId])).code).toBe(0);
    expect(readFileSync(desk.path('paid'), 'utf8').trim().split('\n')).toHaveLength(1);
  });

  test.each([
    ['approve', 'call_0_0'],
    ['reject', 'call_0_0'],
    ['answer', 'call_0_0', '--output', '"paid"'],
  ])('is followed by the reason as JSON: %s', async (command, callId, ...more) => {
    const { desk, runId } = await beginVersions();
    const args = [command, runId, callId, ...more, '--agent', 'second.mjs', '--json'];
    const { code, stdout } = await desk.run(args);
    expect(code).toBe(2);
    expect(eventsOf(stdout)).toEqual([
      expect.objectContaining({ type: 'approval.decided', runId }),
      {
        type: 'stranded',
        runId,
        code: 'agent-invalid',
        reason: 'it uses model 2 of its list, and the agent has 1',
        advice: expect.stringContaining('leave the run to a process whose agent has them'),
      },
    ]);
  });

  test('and that ends with an error later says that everything before it is recorded', async () => {
    const desk = new Desk([calling(REFUND), { text: 'Done.' }]);
    const { runId } = await desk.begin();
    const keyless = { AGENTCHART_MODEL: 'openai:gpt-5' };
    const approved = await desk.run(['approve', runId, 'call_0_0', '--json'], keyless);
    expect(approved.code).toBe(2);
    expect(approved.stderr).toMatch(/Everything up to here is recorded\. To resume the run: .* resume run_/);
    const lines = eventsOf(approved.stdout);
    expect(typesOf(lines)).toEqual(expect.arrayContaining(['approval.decided', 'tool.settled']));
    expect(lines.at(-1)).toEqual({
      type: 'stranded',
      runId,
      code: 'key-missing',
      reason: expect.stringContaining('OPENAI_API_KEY'),
      advice: expect.stringContaining(`resume ${runId}`),
    });
    expect((await desk.run(['resume', runId], desk.model)).code).toBe(0);
  });
});

test("a decision about a sub-agent's run is refused, not recorded, without the agent that drives the run above it", async () => {
  const desk = new Desk([calling(['clerk', { input: 'Pay.' }]), { text: 'All is paid.' }]);
  const begun = await desk.run(['run', '--agent', FAMILY, '--json', 'go'], desk.model);
  const parent = eventsOf(begun.stdout)[0]?.runId ?? '';
  const suspended = eventsOf(begun.stdout).find(({ type }) => type === 'tool.suspended');
  const child = suspended?.type === 'tool.suspended' ? suspended.childRunId : '';
  desk.write(
    'clerk.mjs',
    `import { createAgent } from '${LIBRARY}'; export default createAgent({ name: 'clerk' });`,
  );
  const refused = await desk.run(['approve', child, 'call_0_0', '--agent', 'clerk.mjs']);
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain(`Run ${parent} belongs to agent "desk-lead", but clerk.mjs is "clerk"`);
  expect(typesOf(await desk.journal(child))).not.toContain('approval.decided');
  expect((await desk.run(['approve', child, 'call_0_0'])).code).toBe(0);
});
