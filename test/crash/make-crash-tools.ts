import type { Tool } from '../../protocol/tool.ts';
import { makeTool } from '../support/engine/agents.ts';
import { actIn, type Environment } from './crash-agent.ts';

/** Takes two attempts in each process; the first one fails. */
export function makeFlaky(world: Environment, sideEffect: 'none' | 'idempotent'): Tool {
  const act = actIn(world, 'flaky');
  let attempts = 0;
  return makeTool('flaky', {
    sideEffect,
    retries: 2,
    run: async (input, context) => {
      attempts += 1;
      if (attempts === 1) throw new Error('busy');
      return await act(input, context);
    },
  });
}

/** Must happen once, and can reconcile. */
export function makeAsk(world: Environment): Tool {
  return makeTool('ask', {
    run: actIn(world, 'ask', 'later'),
    reconcile: call =>
      world.outside.hasActed(call) ? { happened: true, output: 'found by the tool' } : { happened: false },
  });
}
