import { describe, expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/index.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { built } from '../support/built.ts';
import { calling, Desk, eventsOf, typesOf } from '../support/cli/desk.ts';
import payout from '../support/cli/fixtures/payout.ts';

const PAYOUT = built('test/support/cli/fixtures/payout.ts');

describe('a call of which two people in a group decide, and not who started the run', () => {
  test('is decided on the command line with --by and --group, as asserted', async () => {
    const desk = new Desk([calling('payout'), { text: 'Done.' }]);
    const begun = await desk.run(['run', '--agent', PAYOUT, '--by', 'sam', '--json', 'go'], desk.model);
    expect(begun.code).toBe(3);
    expect(eventsOf(begun.stdout)[0]).toMatchObject({ type: 'run.started', by: 'sam' });
    const runId = eventsOf(begun.stdout)[0]?.runId ?? '';
    const decide = (...args: string[]) => desk.run([args[0] ?? '', runId, 'call_0_0', ...args.slice(1)]);

    for (const args of [
      ['approve', '--by', 'anna'],
      ['approve', '--by', 'anna', '--group', 'sales'],
      ['approve', '--by', 'sam', '--group', 'finance'],
      ['reject', '--by', 'anna'],
      ['answer', '--by', 'anna', '--output', '1'],
    ]) {
      const refused = await decide(...args);
      expect(refused.code).toBe(4);
      expect(refused.stderr).toContain('2 people in the group finance who did not start the run');
      expect(refused.stderr).toMatch(/\nMore: agentchart docs (not-allowed|refused)\n$/);
    }
    const edited = await desk.run(['edit', runId, 'call_0_0', '--input', '{"cents":1}', '--by', 'anna']);
    expect([edited.code, edited.stderr]).toEqual([
      4,
      expect.stringContaining('anna is in none of the groups'),
    ]);

    const first = await decide('approve', '--by', 'anna', '--group', 'sales', '--group', 'finance', '--json');
    expect(first.code).toBe(3);
    expect(eventsOf(first.stdout)[0]).toMatchObject({
      type: 'approval.decided',
      by: 'anna',
      groups: ['sales', 'finance'],
      known: 'asserted',
    });
    const shown = await desk.run(['show', runId]);
    expect(shown.stdout).toContain('approvals of 2 people in the group finance who did not start the run');
    expect(shown.stdout).toContain('approved by anna, 1 of 2');
    const again = await decide('approve', '--by', 'anna', '--group', 'finance');
    expect([again.code, again.stderr]).toEqual([
      4,
      expect.stringContaining('\nMore: agentchart docs already-decided\n'),
    ]);
    expect((await decide('approve', '--by', 'ben', '--group', 'finance')).code).toBe(0);
    expect(typesOf(await desk.journal(runId))).toContain('tool.settled');
  });

  test('is for nobody if it is not known who started the run, and show says so', async () => {
    const desk = new Desk([calling('payout')]);
    const named = await desk.run(['run', '--agent', PAYOUT, '--by', 'sam', 'go'], desk.model);
    expect(named.stdout).toContain('who did not start the run');
    expect(named.stdout).not.toContain('no one may');
    const store = sqlite(desk.store);
    const model = scripted([calling('payout')]);
    const run = await createAgent({ ...payout.options, model, store }).start('go');
    expect(await run.settled()).toMatchObject({ open: [{ excluded: [null] }] });
    await store.close();
    const why = 'it is not known who started the run, so it may be the same person: start another with `by`';
    const shown = (await desk.run(['show', run.id])).stdout;
    expect(shown).toContain(`no one may decide: ${why}`);
    expect(shown).toContain('A program started this run: add --agent MODULE');
    const mia = ['--by', 'mia', '--group', 'finance'];
    const refused = await desk.run(['approve', run.id, 'call_0_0', '--agent', PAYOUT, ...mia], desk.model);
    expect(refused.stderr).toContain(`not for mia to decide: ${why}`);
  });

  test('is decided by the commands that run and show print, once NAME is a person', async () => {
    const desk = new Desk([calling('payout'), calling('payout'), { text: 'Done.' }]);
    const begun = await desk.run(['run', '--agent', PAYOUT, '--by', 'sam', 'go'], desk.model);
    const printed = (stdout: string, command: string) => {
      const line = stdout.split('\n').find(line => line.includes(` ${command} run_`)) ?? '';
      return line.slice(line.indexOf(` ${command} `) + 1);
    };
    const asked = printed(begun.stdout, 'approve');
    expect(asked).toMatch(/--digest \w+ --by NAME --group finance/);
    const runId = asked.split(' ')[1] ?? '';
    const decide = (line: string, name: string) => desk.run(line.replace('NAME', name).split(' '));
    expect((await decide(asked, 'anna')).code).toBe(3);
    const shown = await desk.run(['show', runId]);
    expect(shown.stdout).not.toContain('A program');
    expect((await decide(printed(shown.stdout, 'approve'), 'ben')).code).toBe(3);
    const again = await desk.run(['show', runId]);
    expect((await decide(printed(again.stdout, 'reject'), 'anna')).code).toBe(0);
    expect(typesOf(await desk.journal(runId)).filter(type => type === 'approval.decided')).toHaveLength(3);
  });
});
