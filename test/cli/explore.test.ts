import { resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { Desk } from '../support/cli/desk.ts';

const REFUND = resolve('examples/refund.ts');

describe.concurrent('explore', () => {
  test('shows what was explored and what was simplified, needs no model and no store, and exits 0', async () => {
    const desk = new Desk([]);
    const explored = await desk.run(['explore', '--agent', REFUND, '--max-states', '300']);
    expect(explored).toMatchObject({ code: 0, stderr: '' });
    expect(explored.stdout).toMatch(/tool refund {2}once, approval by a function/);
    expect(explored.stdout).toMatch(/^states +300 \(incomplete\)$/m);
    expect(explored.stdout).toMatch(/^edges +\d+ of \d+ in the chart$/m);
    expect(explored.stdout).toMatch(/^crash points +\d+$/m);
    expect(explored.stdout).toMatch(/All invariants hold in the explored states\./);
  });

  test('prints only the report as JSON', async () => {
    const desk = new Desk([]);
    const { code, stdout } = await desk.run(['explore', '--agent', REFUND, '--max-states', '300', '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ agent: 'refunds', complete: false, breaches: [] });
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

  test('exits 2 without an agent, for a module that is not an agent, and for an invalid number', async () => {
    const desk = new Desk([]);
    expect((await desk.run(['explore'])).code).toBe(2);
    expect((await desk.run(['explore', '--agent', 'missing.ts'])).code).toBe(2);
    const wrong = await desk.run(['explore', '--agent', REFUND, '--max-states', 'many']);
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toMatch(/--max-states/);
  });
});
