import { expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import { agentMachine } from '../../machines/agent.ts';
import type { Approval } from '../../protocol/tool.ts';
import { explore } from '../../testing/index.ts';
import { tool } from '../../tools/tool.ts';

function makeAgent(approval: Exclude<Approval, boolean>, sideEffect: 'once' | 'idempotent' = 'once') {
  const refund = tool({
    name: 'refund',
    description: 'Refunds.',
    input: z.object({}),
    sideEffect,
    approval,
    run: () => null,
  });
  return createAgent({ name: 'desk', model: scripted([]), tools: [refund], limits: { turns: 2 } });
}

const NEVER =
  'only those decide a call whom its approval allows: the starter or a sender never does, if it says so';

test.each([
  { by: 'managers', not: 'starter' },
  { by: ['managers', 'board'], quorum: 2 },
  { not: 'sender' },
] as const)('exploration finds no way around an approval with %j', duties => {
  const report = explore(makeAgent({ required: true, ...duties }), { maxStates: 400 });
  expect(report.breaches).toEqual([]);
  expect(report.invariants).toContain(NEVER);
  expect(report.decisions).toBeGreaterThan(10);
});

test('exploration finds a chart that lets everyone decide', () => {
  const careless = agentMachine.provide({ guards: { canDecide: () => true } });
  const report = explore(makeAgent({ required: true, not: 'starter' }), { maxStates: 60, machine: careless });
  expect(report.breaches.map(({ invariant }) => invariant)).toContain(NEVER);
});
