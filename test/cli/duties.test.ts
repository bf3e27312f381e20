import { describe, expect, test } from 'vitest';
import { built } from '../support/built.ts';
import { calling, Desk, eventsOf, typesOf } from '../support/cli/desk.ts';

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
    expect((await decide('approve', '--by', 'anna', '--group', 'finance')).code).toBe(4);
    expect((await decide('approve', '--by', 'ben', '--group', 'finance')).code).toBe(0);
    expect(typesOf(await desk.journal(runId))).toContain('tool.settled');
  });
});
