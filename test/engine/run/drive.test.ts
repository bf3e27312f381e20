import { expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { EngineError } from '../../../protocol/error.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeTool, wordsOf } from '../../support/engine/agents.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

/** A run of a sub-agent that waits for an approval, beside a call whose approval expires. */
function makeLead(store: Store, host: ManualHost) {
  const clerk = createAgent({
    name: 'clerk',
    model: scripted([calls('pay'), { text: 'paid' }]),
    tools: [makeTool('pay', { approval: true })],
  });
  return createAgent({
    name: 'lead',
    host,
    store,
    model: scripted([calls(['clerk', { input: 'pay' }], 'act'), { text: 'done' }]),
    tools: [
      clerk.asTool({ name: 'clerk', description: 'Pays.' }),
      makeTool('act', { approval: () => ({ required: true, expiresInMs: 60_000 }) }),
    ],
  });
}

test('driving a fork that waits for the sub-agent of its original claims nothing before an approval expires', async () => {
  const store = memory();
  const host = new ManualHost();
  const run = await makeLead(store, host).start('go');
  await host.settle(run.settled());
  const { id } = await run.fork({ at: (await store.read(run.id)).length });
  const driveAt = async (now: number) => {
    const other = new ManualHost({ now, name: `at_${now}_` });
    await other.settle((await makeLead(store, other).open(id)).drive());
    return (await wordsOf(store, id)).filter(word => word.startsWith('run.claimed')).length;
  };
  const expiry = run.context.timer ?? 0;
  expect([await driveAt(expiry - 1), await driveAt(expiry)]).toEqual([0, 1]);
});

test('resuming a run whose claim fails rejects with the error of the store', async () => {
  const inner = memory();
  const host = new ManualHost();
  const run = await makeLead(inner, host).start('go');
  await host.settle(run.settled());
  const gone = new EngineError('store-unavailable', 'The connection is lost.');
  const store = watchStore(inner, {
    before: method => {
      if (method === 'claim') throw gone;
    },
  });
  await expect((await makeLead(store, host).open(run.id)).resume()).rejects.toBe(gone);
});

test.each(['read', 'chain'] as const)(
  'a claim gives the lease back if %s of the store fails after it',
  async method => {
    const inner = memory();
    const host = new ManualHost();
    const agentOn = (store: Store) =>
      createAgent({ name: 'a', host, store, model: scripted([{ text: 'done' }, { text: 'done' }]) });
    const first = await agentOn(inner).start('go');
    await host.settle(first.settled());
    const second = await agentOn(inner).start('go on', { continues: first.id });
    await host.settle(second.settled());
    const { id } = await second.fork({ at: 1 });
    const gone = new EngineError('store-unavailable', 'The connection is lost.');
    const store: Store = {
      ...inner,
      claim: async (...args) => {
        const claimed = await inner.claim(...args);
        Object.assign(store, { [method]: () => Promise.reject(gone) });
        return claimed;
      },
    };
    await expect((await agentOn(store).open(id)).resume()).rejects.toBe(gone);
    expect((await inner.get(id))?.leaseUntil).toBeUndefined();
    expect(await host.settle((await agentOn(inner).open(id)).settled())).toMatchObject({
      status: 'finished',
    });
  },
);
