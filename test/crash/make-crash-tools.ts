import * as z from 'zod';
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

/** Asks two questions at once, then another, before it must happen once. */
export function makeBook(world: Environment): Tool {
  const act = actIn(world, 'book');
  return makeTool('book', {
    prepare: async ({ ask }) => {
      await Promise.all([
        ask({ key: 'who', message: 'Who?', schema: z.string() }),
        ask({ key: 'when', message: 'When?', schema: z.string() }),
      ]);
      return await ask({ key: 'sure', message: 'Sure?', schema: z.string() });
    },
    run: (input, context) => act(input, context),
  });
}

/** Must happen once, begins, keeps how far it has come, and asks: as a call of a server that asks back. */
export function makeDial(world: Environment): Tool {
  const act = actIn(world, 'dial', 'later');
  return {
    ...makeTool('dial'),
    async run(input, context) {
      if (context.kept === undefined) await context.keep?.({ dialled: true });
      await context.askPeople?.({ key: 'pin', message: 'The PIN?', schema: { type: 'string' } });
      return await act(input, context);
    },
  };
}

/** Must happen once, and can reconcile. */
export function makeAsk(world: Environment): Tool {
  return makeTool('ask', {
    run: actIn(world, 'ask', 'later'),
    reconcile: call =>
      world.outside.hasActed(call) ? { happened: true, output: 'found by the tool' } : { happened: false },
  });
}
