import { setTimeout as delay } from 'node:timers/promises';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, tool } from '../../agent/index.ts';
import type { RunStarted } from '../../protocol/event.ts';
import type { Store } from '../../protocol/store.ts';
import { memory } from '../../stores/memory.ts';

/** The name of the agent, and how many turns its runs have. */
export const AGENT = 'worker';
export const TURNS = 3;

/** An agent with two rounds of a tool and an answer; each model call takes `modelMs`. */
export function makeAgent(store: Store, modelMs: number) {
  const look = tool({
    name: 'look',
    description: 'Looks something up.',
    input: z.object({}),
    sideEffect: 'none',
    run: () => 'found',
  });
  const calls = { toolCalls: [{ name: 'look', arguments: {} }], delayMs: modelMs };
  const models = () => scripted([calls, calls, { text: 'Done.', delayMs: modelMs }]);
  return { store, look, make: () => createAgent({ name: AGENT, model: models(), tools: [look], store }) };
}

/** An agent whose only tool call takes until the process ends. */
export function makeIdler(store: Store) {
  const wait = tool({
    name: 'wait',
    description: 'Waits.',
    input: z.object({}),
    sideEffect: 'none',
    run: async (_, { signal }) => {
      await delay(2 ** 30, undefined, { signal, ref: false });
      return 'over';
    },
  });
  const model = scripted([{ toolCalls: [{ name: 'wait', arguments: {} }] }]);
  return createAgent({ name: 'idler', model, tools: [wait], store });
}

/** The first event of a run of the agent. */
export async function describeStart(): Promise<RunStarted> {
  const store = memory();
  const run = await makeAgent(store, 0).make().start('Look twice.');
  await run.settled();
  const [first] = await store.read(run.id, 0, { entries: 1, chars: 1e6 });
  if (first?.event.type !== 'run.started') throw new Error('The run has no start.');
  return first.event;
}
