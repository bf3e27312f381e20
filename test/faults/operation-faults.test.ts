import { expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { type Agent, createAgent } from '../../agent/agent.ts';
import type { Run } from '../../engine/run/run.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { memory } from '../../stores/memory.ts';
import { ManualHost } from '../../testing/manual-host.ts';
import { calls, makeTracedTool } from '../support/engine/agents.ts';
import {
  FAULT_KINDS,
  type Fault,
  type FaultyStore,
  type Method,
  makeFaultyStore,
} from '../support/faults/fault-store.ts';

/** A run that rests before a payment, an ended run in the same store, and a snapshot of a third run. */
type Scene = { agent: Agent; faulty: FaultyStore; host: ManualHost; resting: Run; kept: JsonValue };

const KEPT = 'run_kept';

async function setScene(keys: string[]): Promise<Scene> {
  const host = new ManualHost();
  const faulty = makeFaultyStore(memory(), host);
  const parts = {
    name: 'a',
    host,
    model: scripted([calls('pay'), { text: 'done' }]),
    tools: [makeTracedTool('pay', keys, { approval: true })],
  };
  const agent = createAgent({ ...parts, store: faulty.store });
  const resting = await agent.start('go', { runId: 'run_resting' });
  await host.settle(resting.settled());
  const ended = await agent.start('go', { runId: 'run_ended' });
  await host.settle(ended.settled());
  await ended.reject('call_0_0');
  await host.settle(ended.settled());
  const there = await createAgent({ ...parts, store: memory() }).start('go', { runId: KEPT });
  await host.settle(there.settled());
  return { agent, faulty, host, resting, kept: there.snapshot() };
}

type Operation = (scene: Scene) => Promise<unknown>;

const OPERATIONS: Record<string, Operation> = {
  open: async ({ agent }) => await (await agent.open('run_resting')).settled(),
  'start with a run to continue': async ({ agent }) =>
    await (await agent.start('more', { continues: 'run_ended' })).settled(),
  restore: async ({ agent, kept }) => await (await agent.restore(kept)).settled(),
  fork: async ({ resting }) => await (await resting.fork({ at: 3 })).settled(),
  check: async ({ agent }) => await agent.check('run_resting'),
  send: async ({ resting }) => {
    const receipt = await resting.send('stop that');
    return [receipt, await resting.settled()];
  },
  approve: async ({ resting }) => {
    const receipt = await resting.approve('call_0_0');
    return [receipt, await resting.settled()];
  },
  cancel: async ({ resting }) => [await resting.cancel(), await resting.settled()],
  'pause and step': async ({ resting }) => [
    await resting.pause(),
    await resting.step(),
    await resting.settled(),
  ],
  'read the events': async ({ resting }) => {
    const events: unknown[] = [];
    for await (const event of resting.events()) events.push(event);
    return events.length > 0;
  },
};

async function perform(operation: Operation, scene: Scene) {
  return await scene.host.settle(
    operation(scene).then(
      result => ({ result }),
      (error: unknown) => ({ error }),
    ),
  );
}

async function countCalls(operation: Operation): Promise<[Method, number][]> {
  const scene = await setScene([]);
  scene.faulty.plan(undefined);
  expect(await perform(operation, scene)).toHaveProperty('result');
  return [...scene.faulty.takeCounts()];
}

test.each(Object.entries(OPERATIONS))(
  '%s: a store that fails once surfaces its error, and the second attempt succeeds',
  async (_, operation) => {
    let failed = 0;
    for (const [method, count] of await countCalls(operation)) {
      for (let nth = 1; nth <= count; nth += 1) {
        for (const kind of FAULT_KINDS) {
          const fault: Fault = { method, nth, kind };
          const keys: string[] = [];
          const scene = await setScene(keys);
          scene.faulty.plan(fault);
          const first = await perform(operation, scene);
          const error = scene.faulty.fired();
          expect(error, JSON.stringify(fault)).toBeDefined();
          if ('error' in first) {
            failed += 1;
            expect(first.error, JSON.stringify(fault)).toBe(error);
            scene.faulty.plan(undefined);
            expect(await perform(operation, scene), JSON.stringify(fault)).toHaveProperty('result');
          }
          expect(new Set(keys).size, JSON.stringify(fault)).toBe(keys.length);
        }
      }
    }
    expect(failed).toBeGreaterThan(0);
  },
);
