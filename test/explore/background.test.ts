import { expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import { explore } from '../../explore/explore.ts';
import { clientTool, makeTool } from '../support/engine/agents.ts';

test('background work breaks no invariant: its outcome may come at any time, and once', async () => {
  const agent = createAgent({
    name: 'shop',
    model: scripted([{}]),
    limits: { turns: 3, toolCalls: 2 },
    tools: [makeTool('ship', { background: true, approval: true }), makeTool('look', { sideEffect: 'none' })],
  });
  const report = await explore(agent, { maxStates: 12_000 });
  expect(report.breaches).toEqual([]);
  expect(report.notes).toContain('At most 2 calls with background work are explored at a time.');
});

test('a client tool in the background breaks no invariant: its calls have their receipts once they are allowed', async () => {
  const agent = createAgent({
    name: 'desk',
    model: scripted([{}]),
    limits: { turns: 3, toolCalls: 2 },
    tools: [
      { ...clientTool('print', { approval: true }), background: true },
      { ...clientTool('fetch'), background: true },
      clientTool('ask'),
    ],
  });
  const report = await explore(agent, { maxStates: 12_000 });
  expect(report.breaches).toEqual([]);
  expect(report.notes).not.toContain('At most 2 calls with background work are explored at a time.');
});
