import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeTool, wordsOf } from '../../support/engine/agents.ts';
import { childOf, makeFamily, PAYING, settleWith } from '../../support/engine/family.ts';

/** A waiting run of agent `a`, and agent `b` on the same store, whose model must not be called. */
async function makeTwo(changes: Partial<AgentOptions> = {}) {
  const store = memory();
  const host = new ManualHost();
  const pay = makeTool('pay', { approval: true });
  const a = createAgent({
    name: 'a',
    version: '1',
    store,
    host,
    model: scripted([calls('pay')]),
    tools: [pay],
  });
  const { run } = await settleWith(a, host);
  const model = scripted([calls('pay'), { text: 'driven by b' }]);
  const b = createAgent({ name: 'b', store, host, model, tools: [pay], ...changes });
  return { store, host, a, b, run };
}

const FOREIGN = { code: 'run-foreign', message: expect.stringContaining('belongs to agent "a"') };

async function assertUntouched(store: Store, runId: string, work: () => Promise<unknown>) {
  const before = { words: await wordsOf(store, runId), runs: (await store.list()).runs };
  await expect(work()).rejects.toMatchObject(FOREIGN);
  expect({ words: await wordsOf(store, runId), runs: (await store.list()).runs }).toEqual(before);
}

describe('a run of another agent', () => {
  test('cannot be opened', async () => {
    const { store, b, run } = await makeTwo();
    await assertUntouched(store, run.id, () => b.open(run.id));
    await expect(b.open(run.id)).rejects.toMatchObject({
      details: { runId: run.id, owner: 'a', agent: 'b' },
    });
  });

  test('cannot be restored, whether or not the store knows the run', async () => {
    const { store, b, run } = await makeTwo();
    await assertUntouched(store, run.id, () => b.restore(run.snapshot()));
    const elsewhere = memory();
    const other = createAgent({ name: 'b', store: elsewhere, model: scripted([]) });
    await expect(other.restore(run.snapshot())).rejects.toMatchObject(FOREIGN);
    expect((await elsewhere.list()).runs).toEqual([]);
  });

  test('cannot be migrated, unless the migration renames its agent', async () => {
    const to = { agent: '2' };
    const { store, host, b, run } = await makeTwo({
      version: '2',
      migrations: [{ from: { agent: '1' }, to, migrate: events => events }],
    });
    await assertUntouched(store, run.id, () => b.migrate(run.id));
    const renamed = createAgent({
      ...b.options,
      host,
      migrations: [
        {
          from: { agent: '1' },
          to,
          migrate: ([first, ...rest]) => [{ ...first, agent: { name: 'b', version: '2' } }, ...rest],
        },
      ],
    });
    const successor = await renamed.migrate(run.id);
    expect(await store.get(successor.id)).toMatchObject({ agent: 'b' });
  });

  test('can be opened by its family when it belongs to a sub-agent, and not by an unrelated agent', async () => {
    const store = memory();
    const host = new ManualHost();
    const agent = makeFamily(PAYING, { store, host });
    const { run } = await settleWith(agent, host);
    const child = await childOf(store, run.id);
    expect((await agent.open(child)).id).toBe(child);
    const stranger = createAgent({ name: 'stranger', store, host, model: scripted([]) });
    await expect(stranger.open(child)).rejects.toMatchObject({ code: 'run-foreign' });
  });

  test('with the id of a sub-agent call is not driven by the sub-agent', async () => {
    const store = memory();
    const host = new ManualHost();
    const first = makeFamily(PAYING, { store, host });
    const { run } = await settleWith(first, host);
    const child = await childOf(store, run.id);
    const journal = await store.read(child);
    const elsewhere = memory();
    const [begun] = await store.read(run.id);
    const [childBegun] = journal;
    if (begun?.event.type !== 'run.started' || childBegun?.event.type !== 'run.started')
      throw new Error('a journal begins with run.started');
    await elsewhere.create({ ...childBegun.event, agent: { name: 'somebody' } });
    const agent = makeFamily(PAYING, { store: elsewhere, host });
    const again = await agent.start('go', { runId: run.id });
    await expect(host.settle(again.settled())).rejects.toMatchObject({ code: 'run-foreign' });
    expect(await wordsOf(elsewhere, child)).toEqual(['run.started']);
  });

  test('can be continued by a new run once it has ended', async () => {
    const { host, a, b, run } = await makeTwo();
    await (await a.open(run.id)).cancel();
    const next = await b.start('and now', { continues: run.id });
    expect(await host.settle(next.settled())).toMatchObject({ status: 'finished', text: 'driven by b' });
  });
});
