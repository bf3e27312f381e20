import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { calling, Desk, REFUND as REFUND_CALL } from '../support/cli/desk.ts';

const REFUND = resolve('examples/refund.ts');

describe.concurrent('explore', () => {
  test('an exploration that was stopped is no proof: it exits 5 and says what was not walked', async () => {
    const desk = new Desk([]);
    const explored = await desk.run(['explore', '--agent', REFUND, '--max-states', '300']);
    expect(explored).toMatchObject({ code: 5, stderr: '' });
    expect(explored.stdout).toMatch(/tool refund {2}once, approval by a function/);
    expect(explored.stdout).toMatch(/^states +300 \(incomplete\)$/m);
    expect(explored.stdout).toMatch(/^edges +\d+ of \d+ in the chart$/m);
    expect(explored.stdout).toMatch(/^crash points +\d+$/m);
    expect(explored.stdout).toMatch(
      /^not walked all choices: what follows \d+ of \d+ states\. Walk more states: maxStates \(--max-states\) above 300\.$/m,
    );
    expect(explored.stdout).toMatch(/^Not proved: /m);
    expect(explored.stdout).not.toContain('All invariants hold');
  });

  test('prints only the report as JSON', async () => {
    const desk = new Desk([]);
    const { code, stdout } = await desk.run(['explore', '--agent', REFUND, '--max-states', '300', '--json']);
    expect(code).toBe(5);
    const report = JSON.parse(stdout);
    expect(report).toMatchObject({ agent: 'refunds', complete: false, breaches: [] });
    expect(report.unfinished.at(-1)).toMatchObject({ paths: 'all choices', stoppedBy: 'maxStates' });
  });

  test('exits 0 once every walk has come to its end', async () => {
    const desk = new Desk([]);
    const module = desk.write(
      'closed.ts',
      `import { createAgent } from ${JSON.stringify(resolve('agent/index.ts'))};
       export default createAgent({ name: 'closed', retry: { attempts: 1 }, limits: { turns: 1 } });`,
    );
    const { code, stdout } = await desk.run(['explore', '--agent', module]);
    expect(stdout).toMatch(/^All invariants hold\.$/m);
    expect(stdout).not.toContain('not walked');
    expect(code).toBe(0);
  });

  test('exits 1 with the path to the violation, for an exported exploration with predicates', async () => {
    const desk = new Desk([]);
    const module = desk.write(
      'held.ts',
      `export { default } from ${JSON.stringify(REFUND)};
       export const invariants = { 'no refund': ({ event }) => event.type !== 'tool.started' || !event.callId.startsWith('refund') };`,
    );
    const explored = await desk.run(['explore', '--agent', module, '--max-states', '300']);
    expect(explored.code).toBe(1);
    expect(explored.stdout).toMatch(/violated {2}no refund/);
    expect(explored.stdout).toMatch(/0 {2}run\.started.*→ turn\.planning/);
    expect(explored.stdout).toMatch(/1 {2}turn\.completed .*calls refund.*→ executingTools — /);
    expect(explored.stdout).toMatch(/2 {2}tool\.started/);
    expect(explored.stdout).toMatch(/1 invariant violated\./);
  });

  test('prints whether what may never start is proved, and exits by it', async () => {
    const desk = new Desk([]);
    const module = desk.write(
      'small.ts',
      `import * as z from ${JSON.stringify(resolve('node_modules/zod/index.js'))};
       import { createAgent, tool } from ${JSON.stringify(resolve('agent/index.ts'))};
       const refund = tool({
         name: 'refund',
         description: 'Refunds.',
         input: z.object({}),
         sideEffect: 'none',
         approval: { required: true, by: 'manager' },
         run: () => null,
       });
       export default createAgent({
         name: 'small',
         tools: [refund],
         onLimit: 'stop',
         retry: { attempts: 1 },
         limits: { turns: 1, toolCalls: 1 },
       });
       export const never = 'refund after refund';`,
    );
    const asked = (never: string, ...more: string[]) =>
      desk.run(['explore', '--agent', module, '--never', never, ...more]);
    const proved = await asked('refund unless approved by manager');
    expect(proved.stdout).toMatch(/^rule never refund unless approved by manager: proved in \d+ states$/m);
    expect(proved).toMatchObject({ code: 0, stderr: '' });
    const broken = await asked('refund', '--json', '--max-states', '500', '--save-test', 'saved.test.ts');
    expect(broken.code).toBe(1);
    expect(JSON.parse(broken.stdout)).toMatchObject({
      breaches: [],
      rules: [
        { name: 'never refund after refund' },
        {
          name: 'never refund',
          verdict: 'broken',
          message: 'refund (refund_1) starts',
          says: 'broken: refund (refund_1) starts',
        },
      ],
    });
    const saved = readFileSync(desk.path('saved.test.ts'), 'utf8');
    expect(saved).toContain('never refund: holds on the path that broke it');
    expect(saved).toMatch(/never: \[\s*"refund after refund",\s*"refund"\s*\]/);
    const stopped = await asked('refund unless approved', '--max-states', '20');
    expect(stopped.stdout).toMatch(/^rule .*: not proved: the walks stopped before their end$/m);
    expect(stopped.code).toBe(5);
    expect(await asked('refnd')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('no tool is named "refnd". Expected one of: refund'),
    });
  });

  test('warns of what a rule names although no tool of the agent has it, as agentchart rules does', async () => {
    const desk = new Desk([]);
    const module = desk.write(
      'ruled.ts',
      `import * as z from ${JSON.stringify(resolve('node_modules/zod/index.js'))};
       import { atMost, createAgent, never, tool } from ${JSON.stringify(resolve('agent/index.ts'))};
       const mail = tool({ name: 'mail', description: 'Mails.', input: z.object({}), run: () => null, tags: ['leaves'], approval: { pure: true, rule: () => true } });
       export default createAgent({
         name: 'ruled',
         tools: [mail],
         rules: [never('#leaves').after('#untrusted'), atMost(1).of('mail')],
         onLimit: 'stop',
         retry: { attempts: 1 },
         limits: { turns: 1, toolCalls: 1 },
       });`,
    );
    const warning = '  warning no tool of ruled has the tag #untrusted';
    const { code, stdout } = await desk.run(['explore', '--agent', module]);
    const lines = stdout.split('\n');
    expect(lines).toContain('  tool mail  once, approval by a pure function, which asks for 1 of 1 inputs');
    const at = lines.findIndex(line => line.startsWith('rule never #leaves after #untrusted: proved in '));
    expect(lines.slice(at + 1, at + 3)).toEqual([
      warning,
      expect.stringMatching(/^rule at most 1 of mail: proved in /),
    ]);
    expect(stdout.split('warning')).toHaveLength(2);
    expect(code).toBe(0);
    expect((await desk.run(['rules', '--agent', module])).stdout.split('\n')).toContain(warning);
    const report = JSON.parse((await desk.run(['explore', '--agent', module, '--json'])).stdout);
    expect(report.rules.map(({ unknown }: { unknown?: string[] }) => unknown)).toEqual([
      ['#untrusted'],
      undefined,
    ]);
  });

  test('tells what may still happen to a run, and saves the violation as a test beside the agent', async () => {
    const desk = new Desk([calling(REFUND_CALL)]);
    const module = desk.write(
      'asks.ts',
      `export { default } from ${JSON.stringify(REFUND)};
       export const invariants = { 'no refund': ({ event }) => event.type !== 'tool.started' || event.attempt > 1 };`,
    );
    const { runId } = await desk.begin('--agent', module);
    const json = await desk.run([
      'explore',
      runId,
      '--max-states',
      '40',
      '--json',
      '--save-test',
      'saved.test.ts',
    ]);
    expect(json.code).toBe(1);
    const report = JSON.parse(json.stdout);
    expect(report).toMatchObject({
      runId,
      state: 'resting.awaitingApproval',
      approvals: [{ name: 'refund' }],
    });
    const said = [report.unfinished[0], ...report.starts].map(({ says }) => says);
    expect(said).toEqual([
      expect.stringMatching(
        /^what can start without an approval: what follows \d+ of \d+ states\. Walk more/,
      ),
      'cannot start, where the walks came',
      'only after an approval, where the walks came',
    ]);
    expect(report.left.turns).toEqual({ spent: 1, most: 20 });
    expect(report.breaches[0].path.at(-1).event.type).toBe('tool.started');
    const saved = readFileSync(desk.path('saved.test.ts'), 'utf8');
    expect(saved).toContain('import agent, * as exported from "./asks.ts";');
    expect(saved).toContain('test("no refund: holds on the path that broke it"');
    const { code, stdout } = await desk.run(['explore', runId, '--at', '1', '--max-states', '40']);
    expect(code).toBe(1);
    expect(stdout).toMatch(/at entry 1: turn\.planning/);
    expect(stdout).toMatch(/^can come .*executingTools \(1\)/m);
    expect(stdout).toMatch(/^turns left +21, after 0$/m);
    const last = await desk.run(['explore', runId, '--max-states', '40']);
    expect(last.stdout).toMatch(/^asks now +refund \(/m);
    expect((await desk.run(['explore', runId, '--at', '99'])).stderr).toMatch(/--at must be an entry/);
    expect((await desk.run(['explore', '--agent', module, '--at', '1'])).stderr).toMatch(/--at needs a run/);
  });

  test('exits 2 without an agent, for a module that is not an agent, and for an invalid number', async () => {
    const desk = new Desk([]);
    expect((await desk.run(['explore'])).code).toBe(2);
    expect((await desk.run(['explore', '--agent', 'missing.ts'])).code).toBe(2);
    const wrong = await desk.run(['explore', '--agent', REFUND, '--max-states', 'many']);
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toMatch(/--max-states/);
  });
});
