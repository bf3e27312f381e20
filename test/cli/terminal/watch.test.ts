import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { calling, Desk, eventsOf, REFUND, typesOf } from '../../support/cli/desk.ts';
import { HAS_TERMINAL, onTerminal } from '../../support/cli/terminal.ts';

const done = { text: 'All done.' };
const LEFT = '\u001b[?1049l';

describe.skipIf(!HAS_TERMINAL)(
  'watch on a terminal (skipped without `script` of util-linux)',
  { concurrent: true },
  () => {
    test('shows list and inbox, approves with a press and Enter, resumes the run, and restores the terminal', async () => {
      const desk = new Desk([calling(REFUND), done]);
      const { runId } = await desk.begin('--title', 'Refund A-1');
      const watch = onTerminal(desk, ['watch', '--by', 'Ada']);
      await watch.printed('money leaves the house');
      watch.child.stdin.write('a');
      await watch.printed('Approve refund of $42.00 for A-1 in “Refund A-1”?');
      await new Promise(resolve => setTimeout(resolve, 200));
      watch.child.stdin.write('\r');
      const shown = await watch.printed('finished');
      expect(shown).toContain('Nothing to decide.');
      watch.child.stdin.write('q');
      const ended = await watch.ended;
      expect(ended.code).toBe(0);
      expect(ended.stdout.trimEnd().endsWith(LEFT)).toBe(true);
      const journal = await desk.journal(runId);
      expect(journal.find(({ type }) => type === 'approval.decided')).toMatchObject({ by: 'Ada' });
      expect(typesOf(journal)).toContain('tool.settled');
    });

    test('a held key decides nothing, and Ctrl+C restores the terminal', async () => {
      const desk = new Desk([calling(REFUND), done]);
      const { runId } = await desk.begin();
      const watch = onTerminal(desk, ['watch']);
      await watch.printed('money leaves the house');
      for (const presses of ['a', 'a'.repeat(30), 'aa']) {
        watch.child.stdin.write(presses);
        await new Promise(resolve => setTimeout(resolve, 700));
      }
      watch.child.stdin.write('\u0003');
      const ended = await watch.ended;
      expect(ended.code).toBe(0);
      expect(ended.stdout).toContain('Press a again');
      expect(ended.stdout.trimEnd().endsWith(LEFT)).toBe(true);
      expect(typesOf(await desk.journal(runId))).not.toContain('approval.decided');
    });

    test('`e` leaves the screen, asks with the forms of other commands, and returns', async () => {
      const desk = new Desk([calling('ask_customer'), done]);
      const { runId } = await desk.begin();
      const watch = onTerminal(desk, ['watch', '--no-drive']);
      await watch.printed('ask_customer');
      watch.child.stdin.write('e');
      await watch.printed('result (JSON)');
      watch.child.stdin.write('{"yes":true}\n');
      await watch.printed('Nothing to decide.');
      watch.child.stdin.write('q');
      expect((await watch.ended).code).toBe(0);
      expect(typesOf(await desk.journal(runId)).at(-1)).toBe('result.received');
    });

    test.each(['SIGTERM', 'SIGHUP'] as const)('%s restores the terminal', async signal => {
      const desk = new Desk([calling(REFUND), done]);
      await desk.begin();
      const watch = onTerminal(desk, ['watch']);
      await watch.printed('money leaves the house');
      const { pid } = watch.child;
      process.kill(Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')), signal);
      const ended = await watch.ended;
      expect(ended.stdout.trimEnd().endsWith(LEFT)).toBe(true);
    });
  },
);

describe('watch without a terminal', () => {
  test('prints a line for what is open and for each change, and reads no key', async () => {
    const desk = new Desk([calling(REFUND), done]);
    const { runId } = await desk.begin('--title', 'Refund A-1');
    const watch = desk.start(['watch']);
    watch.child.stdin.write('aaaaq');
    await watch.printed('refund of $42.00 for A-1 waits for approval');
    await desk.run(['approve', runId, 'call_0_0'], desk.model);
    await watch.printed('refund is no longer open');
    await watch.printed('finished');
    watch.child.kill('SIGINT');
    const ended = await watch.ended;
    expect(ended.code).toBe(0);
    expect(ended.stdout).not.toContain('\u001b');
  });

  test('with --json prints JSON Lines', async () => {
    const hostile = { orderId: 'red \u001b[31m', cents: 1 };
    const desk = new Desk([calling(['refund', hostile]), done]);
    const { runId } = await desk.begin();
    const watch = desk.start(['watch', '--json']);
    await watch.printed('"type":"open"');
    await desk.run(['reject', runId, 'call_0_0'], desk.model);
    await watch.printed('"type":"closed"');
    watch.child.kill('SIGTERM');
    const ended = await watch.ended;
    expect([ended.code, ended.stderr]).toEqual([0, '']);
    expect(eventsOf(ended.stdout).map(({ type, runId: run }) => [type, run])).toEqual([
      ['run', runId],
      ['open', runId],
      ['run', runId],
      ['closed', runId],
    ]);
    expect(ended.stdout).not.toContain('\u001b');
  });

  test('refuses a store that does not exist', async () => {
    const ended = await new Desk([]).run(['watch']);
    expect([ended.code, ended.stdout]).toEqual([2, '']);
    expect(ended.stderr).toContain('does not exist');
  });
});
