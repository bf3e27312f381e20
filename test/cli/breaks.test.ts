import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { AGENT, calling, Desk, LIBRARY } from '../support/cli/desk.ts';

const LOOK = calling(['lookup', { orderId: 'A-1' }]);
const usage = (inputTokens: number, cachedInputTokens: number) => ({
  usage: { inputTokens, outputTokens: 100, cachedInputTokens },
});

/** The agent of the fixture, with another tool from its third turn on. */
const MODULE = `
  import { createAgent } from '${LIBRARY}';
  import desk from '${pathToFileURL(AGENT).href}';
  export default createAgent({
    ...desk.options,
    prices: { 'turns.json': { input: 3, output: 15, cachedInput: 0.3 } },
    prepareTurn: ({ turns }) => ({ tools: turns < 2 ? ['lookup'] : ['lookup', 'refund'] }),
  });`;

const BREAK = 'broken by tools: 2,100 tokens read again ($0.0057)';

function desk(): Desk {
  const turns = [
    { ...LOOK, ...usage(1_000, 0) },
    { ...LOOK, ...usage(2_000, 1_000) },
    { ...LOOK, ...usage(3_000, 0) },
    { text: 'Done.', ...usage(4_000, 3_000) },
  ];
  const made = new Desk(turns);
  made.write('agent.mjs', MODULE);
  return made;
}

test('a run prints each break of the prefix and what it cost as it happens', async () => {
  const made = desk();
  const { stdout, code } = await made.run(['run', '--agent', 'agent.mjs', 'go'], made.model);
  expect(code).toBe(0);
  expect(stdout.split('\n').filter(line => line.includes('broken'))).toEqual([`  ! prefix ${BREAK}`]);
  expect(stdout).toContain('3,000 tokens in (0 cached), 100 out');
  expect(stdout).toContain('4 turns, 10,000 tokens in (4,000 cached), 400 out');
});

test('show lists the breaks of the prefix with their turns, as text and as JSON', async () => {
  const made = desk();
  const ran = await made.run(['run', '--agent', 'agent.mjs', '--json', 'go'], made.model);
  const { runId } = JSON.parse(ran.stdout.split('\n')[0] ?? '');
  const { stdout } = await made.run(['show', runId]);
  expect(stdout).toContain(`breaks of the prefix\n  turn 3: ${BREAK}\n`);
  const { breaks } = JSON.parse((await made.run(['show', runId, '--json'])).stdout);
  const [{ seq, cost }] = breaks;
  expect(breaks).toEqual([{ turn: 3, seq, by: 'tools', lost: [], readAgain: 2_100, cost }]);
  expect(cost).toBeCloseTo(0.00567, 10);
  expect((await made.journal(runId))[seq - 1]).toMatchObject({ broken: { by: 'tools' } });
  const events = await made.run(['show', runId, '--events']);
  expect(events.stdout).toContain('prefix broken by tools');
});

test('show lists what a compaction replaced, with its summary and the requests around it', async () => {
  const made = new Desk([
    { ...LOOK, ...usage(1_000, 0) },
    { ...LOOK, ...usage(3_000, 900) },
    { text: 'Done.', ...usage(600, 0) },
  ]);
  made.write(
    'agent.mjs',
    `import { createAgent } from '${LIBRARY}';
     import desk from '${pathToFileURL(AGENT).href}';
     const compaction = { at: 2000, summarize: () => 'They looked at orders.' };
     export default createAgent({ ...desk.options, compaction });`,
  );
  const ran = await made.run(['run', '--agent', 'agent.mjs', 'go'], made.model);
  expect(ran.stdout).toContain('transcript.compacted');
  const runId = /run_\w+/.exec(ran.stdout)?.[0] ?? '';
  const { stdout } = await made.run(['show', runId]);
  expect(stdout).toMatch(/compactions\n {2}entry \d+: 2 items replaced, .*They looked at orders\./);
  expect(stdout).toContain('(requests: 3,000 → 600 tokens)');
  const { compactions, breaks } = JSON.parse((await made.run(['show', runId, '--json'])).stdout);
  const told = { upTo: 3, kept: [0], summary: 'They looked at orders.', usage: null };
  expect(compactions).toMatchObject([{ ...told, tokensBefore: 3_000, tokensAfter: 600 }]);
  expect(breaks).toMatchObject([{ turn: 3, by: 'compaction' }]);
});

test('a request that broke the prefix and failed is listed until its turn completes without a break', async () => {
  const made = new Desk([
    { ...LOOK, ...usage(1_000, 0) },
    { ...LOOK, ...usage(2_000, 1_000) },
    { error: { code: 'invalid-request', message: 'No.' } },
  ]);
  made.write('agent.mjs', MODULE);
  const ran = await made.run(['run', '--agent', 'agent.mjs', 'go'], made.model);
  expect(ran.code).toBe(1);
  expect(ran.stdout).toContain('turn failed: invalid-request: No.; prefix broken by tools\n');
  const runId = /run_\w+/.exec(ran.stdout)?.[0] ?? '';
  const { breaks } = JSON.parse((await made.run(['show', runId, '--json'])).stdout);
  expect(breaks).toMatchObject([{ turn: 3, by: 'tools', readAgain: null, cost: null }]);
});
