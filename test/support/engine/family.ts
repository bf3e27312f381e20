import { expect } from 'vitest';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { Settled } from '../../../engine/log/settled.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeTool } from './agents.ts';

type Options = Partial<AgentOptions>;
export type Family = {
  parent?: Options;
  child?: Options;
  script?: ScriptedTurn[];
  childScript?: ScriptedTurn[];
};

const ASK: ScriptedTurn = calls(['research', { input: 'find it' }]);

/** A parent that calls a sub-agent. */
export function makeFamily(
  { parent, child, script = [ASK, { text: 'told' }], childScript = [{ text: 'found' }] }: Family = {},
  place: Options = { store: memory(), host: new ManualHost() },
): Agent {
  const researcher = createAgent({ name: 'researcher', model: scripted(childScript), ...child });
  const research = researcher.asTool({ name: 'research', description: 'Finds things.' });
  return createAgent({
    name: 'writer',
    model: scripted(script),
    ...parent,
    tools: [research, ...(parent?.tools ?? [])],
    ...place,
  });
}

export const PAYING: Family = {
  child: { tools: [makeTool('pay', { approval: true })] },
  childScript: [calls('pay'), { text: 'paid' }],
};

export async function settleWith(agent: Agent, host: ManualHost, input = 'go') {
  const run = await agent.start(input);
  return { run, settled: await host.settle(run.settled()) };
}

export function assertWaiting(settled: Settled): asserts settled is Extract<Settled, { status: 'waiting' }> {
  expect(settled.status).toBe('waiting');
}

export async function childOf(store: Store, parentId: string): Promise<string> {
  const runs = (await store.list()).runs;
  const child = runs.find(({ runId }) => runId !== parentId);
  if (child === undefined) throw new Error('there is no child');
  return child.runId;
}
