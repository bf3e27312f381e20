import { pathToFileURL } from 'node:url';
import { describe, expect, test } from 'vitest';
import { AGENT, calling, Desk, LIBRARY, REFUND } from '../support/cli/desk.ts';

/** The agent of the fixture, with rules; `more`: further options. */
const ruled = (rules: string, more = '') => `
  import { atMost, createAgent, needs, never, rule, tool } from '${LIBRARY}';
  import desk from '${pathToFileURL(AGENT).href}';
  export default createAgent({ ...desk.options, rules: ${rules}, ${more} });`;

const LOOKUP = calling(['lookup', { orderId: 'A-1' }]);

/** A store with a finished run that looked something up, and one that waits for the approval of a refund. */
async function recorded(rules: string, more = '') {
  const desk = new Desk([LOOKUP, calling(REFUND), { text: 'Done.' }]);
  const begun = await desk.begin();
  desk.write('ruled.mjs', ruled(rules, more));
  return { desk, begun, backtest: ['rules', '--agent', 'ruled.mjs', '--backtest'] };
}

describe.concurrent('rules', () => {
  test('are listed in words, with a warning about names that the agent does not have', async () => {
    const desk = new Desk([]);
    desk.write(
      'ruled.mjs',
      ruled(`[
        never('#leaves').after('lookup'),
        rule({ name: 'few', when: atMost(2).of('refund').asks('manager'), mode: 'shadow', per: 'run', reason: 'two are enough' }),
        rule({ name: 'mine', when: () => false, then: 'stop' }),
      ]`),
    );
    const { code, stdout, stderr } = await desk.run(['rules', '--agent', 'ruled.mjs']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toBe(`never #leaves after lookup
  warning no tool of desk has the tag #leaves
  refuses the call, and the model reads why
  over the whole thread; a condition, which can be proved

few  shadow: only recorded
  at most 2 of refund: asks manager
  asks manager to approve the call: two are enough
  over the run; a condition, which can be proved

mine
  by default, refuses the call and ends the run
  over the whole thread; a function, which is enforced and cannot be proved

`);
    const listed = await desk.run(['rules', '--agent', 'ruled.mjs', '--json']);
    expect(JSON.parse(listed.stdout)).toMatchObject({
      agent: 'desk',
      lacksTools: false,
      rules: [
        { name: 'never #leaves after lookup', verdict: 'block', unknown: ['#leaves'], kind: 'condition' },
        {
          name: 'few',
          verdict: 'ask',
          by: ['manager'],
          mode: 'shadow',
          per: 'run',
          reason: 'two are enough',
        },
        { name: 'mine', verdict: 'stop', kind: 'function', unknown: [] },
      ],
    });
  });

  test('are tried on stored runs: what they would do, to whom, and how each case is opened', async () => {
    const { desk, begun, backtest } = await recorded(`[
      rule({ name: 'look first', when: needs('security').for('lookup'), reason: 'orders are private' }),
      never('refund').after('lookup'),
    ]`);
    const before = await desk.journal(begun.runId);
    const { code, stdout, stderr } = await desk.run(backtest);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain('desk  1 run read, 2 calls judged\n');
    const made = before.filter(({ type }) => type === 'turn.completed');
    expect(stdout).toMatch(
      /look first\n {2}lookup needs security\n {2}would ask security about 1 call, in 1 run\n/,
    );
    expect(stdout).toContain(`lookup (call_0_0): allowed → asked security  `);
    expect(stdout).toMatch(
      new RegExp(
        `refund \\(call_1_0\\): asked anyone → refused .* show ${begun.runId} --at ${made[1]?.seq}\n`,
      ),
    );
    expect(await desk.journal(begun.runId)).toEqual(before);
    const shown = await desk.run(['show', begun.runId, '--at', String(made[1]?.seq)]);
    expect(shown.stdout).toMatch(/^call +refund \(call_1_0\) \{"orderId":"A-1","cents":4200\}$/m);
    expect(shown.stdout).toMatch(/^state +resting\.awaitingApproval — /m);
    const json = await desk.run([...backtest, begun.runId.slice(0, 12), '--json']);
    expect(JSON.parse(json.stdout)).toMatchObject({
      agent: 'desk',
      runs: 1,
      complete: true,
      rules: [{ name: 'look first', ask: 1, same: 0, asks: [{ by: ['security'], count: 1 }] }, { block: 1 }],
    });
  });

  test('are tried on the runs that filters choose', async () => {
    const { desk, begun, backtest } = await recorded(`[never('refund')]`);
    const read = async (...args: string[]) => (await desk.run([...backtest, ...args])).stdout.split('\n')[0];
    expect(await read('--since', '1h', '--status', 'waiting')).toBe('desk  1 run read, 2 calls judged');
    expect(await read('--since', '2026-01-01', '--before', '1d')).toBe('desk  0 runs read, 0 calls judged');
    expect(await read('--label', 'user=7')).toBe('desk  0 runs read, 0 calls judged');
    expect(await desk.run(['rules', '--agent', 'ruled.mjs', begun.runId])).toMatchObject({
      code: 2,
      stderr: 'Give runs and filters of runs only with --backtest.\n',
    });
    expect(await desk.run([...backtest, begun.runId, '--since', '1h'])).toMatchObject({
      code: 2,
      stderr: 'runs and since exclude each other. Give one of them.\n',
    });
    expect(await desk.run([...backtest, '--since', 'soon'])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('or minutes, hours or days ago, such as'),
    });
    expect(await desk.run(['show', begun.runId, '--at', '99'])).toMatchObject({ code: 2 });
  });

  test('Ctrl-C prints what was found so far, and exits 5', async () => {
    const { desk, backtest } = await recorded(
      `[never('lookup')]`,
      `tools: desk.options.tools.map(one => one.name !== 'refund' ? one : {
         ...one,
         fixedApproval: undefined,
         approval: () => { console.error('asked'); return new Promise(resolve => setTimeout(resolve, 60_000, true)); },
       }),`,
    );
    const started = desk.start([...backtest, '--json']);
    await started.printed('asked');
    started.child.kill('SIGINT');
    const { code, stdout } = await started.ended;
    expect(code).toBe(5);
    expect(JSON.parse(stdout)).toMatchObject({
      agent: 'desk',
      complete: false,
      runs: 0,
      rules: [{ block: 0 }],
    });
  });
});
