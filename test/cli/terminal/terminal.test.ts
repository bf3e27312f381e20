import { describe, expect, test } from 'vitest';
import { AGENT, calling, Desk, REFUND, typesOf } from '../../support/cli/desk.ts';
import { HAS_TERMINAL, onTerminal } from '../../support/cli/terminal.ts';
import { until } from '../../support/server/runs-app.ts';

const done = { text: 'All done.' };
const ESCAPE = '\u001b';

describe.skipIf(!HAS_TERMINAL)(
  'on a terminal (skipped without `script` of util-linux)',
  { concurrent: true },
  () => {
    const run = ['run', '--agent', AGENT, 'go'];

    test('a run shows coloured states and streams its text once', async () => {
      const desk = new Desk([{ text: 'Let me look.', ...calling(['lookup', { orderId: 'A-1' }]) }, done]);
      const started = onTerminal(desk, run);
      const ended = await started.ended;
      expect(ended.code).toBe(0);
      expect(ended.stdout).toContain(`${ESCAPE}[36m● planning${ESCAPE}[39m`);
      expect(ended.stdout).toContain('(preamble; calls follow)');
      expect(ended.stdout.split('All done.')).toHaveLength(2);
    });

    test('NO_COLOR is respected', async () => {
      const ended = await onTerminal(new Desk([done]), run, { NO_COLOR: '1' }).ended;
      expect(ended.code).toBe(0);
      expect(ended.stdout).not.toContain(ESCAPE);
    });

    test('the user is asked for an approval, sees the whole input, and approves', async () => {
      const desk = new Desk([calling(REFUND), done]);
      const started = onTerminal(desk, run);
      await started.printed('[a]pprove  [r]eject  [q]uit');
      started.child.stdin.write('a\n');
      const ended = await started.ended;
      expect(ended.code).toBe(0);
      expect(ended.stdout).toContain('cents: 4200');
      expect(ended.stdout).toContain('All done.');
    });

    test.each(['y', 'yes', 'Yes', 'approve'])('%j approves too', async answer => {
      const desk = new Desk([calling(REFUND), done]);
      const started = onTerminal(desk, run);
      await started.printed('[a]pprove  [r]eject  [q]uit');
      started.child.stdin.write(`${answer}\n`);
      const ended = await started.ended;
      expect(ended.code).toBe(0);
      expect(ended.stdout).toContain('All done.');
    });

    test('a word that only begins like a choice is asked about again', async () => {
      const desk = new Desk([calling(REFUND), done]);
      const started = onTerminal(desk, run);
      const asked = async (times: number) => {
        const shown = await started.printed('[a]pprove');
        return shown.split('[a]pprove').length > times ? true : undefined;
      };
      for (const [times, answer] of ['abort', 'yikes', 'q'].entries()) {
        await until(() => asked(times + 1));
        started.child.stdin.write(`${answer}\n`);
      }
      expect((await started.ended).code).toBe(3);
    });

    test.each([80, 120])('the list of runs fits %i columns, and --wide shows everything', async columns => {
      const title = 'Refund the order A-1001 of the customer who called three times on Monday';
      const desk = new Desk([calling(REFUND), done]);
      const { runId } = await desk.begin('--title', title);
      const list = async (...more: string[]) => {
        const { stdout } = await onTerminal(desk, ['runs', ...more], { NO_COLOR: '1' }, { columns }).ended;
        return stdout.trimEnd().split('\r\n');
      };
      const fitted = await list();
      for (const line of fitted) expect(line.length).toBeLessThanOrEqual(columns);
      const [shown = ''] = fitted[1]?.split(' ') ?? [];
      expect(runId.startsWith(shown)).toBe(true);
      expect((await desk.run(['show', shown])).code).toBe(0);
      for (const part of ['waiting', 'Refund the', 'approval']) expect(fitted[1]).toContain(part);
      for (const part of [runId, title, 'approval of refund'])
        expect((await list('--wide'))[1]).toContain(part);
    });

    test('an approval given elsewhere closes the prompt, and the run is followed', async () => {
      const desk = new Desk([calling(REFUND), done]);
      const started = onTerminal(desk, run);
      await started.printed('[a]pprove  [r]eject  [q]uit');
      const runId = JSON.parse((await desk.run(['runs', '--json'])).stdout).runId;
      expect((await desk.run(['approve', runId, 'call_0_0', '--by', 'Ada'])).code).toBe(0);
      const ended = await started.ended;
      expect(ended.code).toBe(0);
      expect(ended.stdout).toContain('Resolved elsewhere; resuming.');
      expect(ended.stdout).toContain('approved by Ada');
      expect(ended.stdout).toContain('All done.');
    });

    test('the user rejects an approval with a reason', async () => {
      const desk = new Desk([calling(REFUND), done]);
      const started = onTerminal(desk, run);
      await started.printed('[a]pprove');
      started.child.stdin.write('r\n');
      await started.printed('reason for the model');
      started.child.stdin.write('too much\n');
      const ended = await started.ended;
      expect(ended.code).toBe(0);
      expect(ended.stdout).toContain('rejected: too much');
    });

    test.each(['q\n', '\u0003', '\u0004'])('%j leaves the run waiting', async key => {
      const desk = new Desk([calling(REFUND), done]);
      const started = onTerminal(desk, run);
      await started.printed('[a]pprove');
      started.child.stdin.write(key);
      const ended = await started.ended;
      expect(ended.code).toBe(3);
      const [, runId = ''] = /(run_\w+)/.exec(ended.stdout) ?? [];
      expect(typesOf(await desk.journal(runId)).at(-1)).toBe('turn.completed');
    });

    test('the user is also asked for results and for calls in doubt', async () => {
      const desk = new Desk([calling('ask_customer'), calling('charge'), done]);
      const started = onTerminal(desk, run);
      await started.printed('result (JSON)');
      started.child.stdin.write('not json\n');
      await started.printed('Not valid JSON');
      started.child.stdin.write('{"yes":true}\n');
      await started.printed('[t]ry again');
      started.child.stdin.write('t\n');
      const ended = await started.ended;
      expect(ended.code).toBe(0);
      expect(ended.stdout).toContain('charged again');
    });
  },
);
