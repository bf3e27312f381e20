import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import { statusOf } from '../../../machines/status.ts';
import { digestCall } from '../../../protocol/content/digest.ts';
import { InDoubt } from '../../../protocol/error.ts';
import type { RunEvent, RunStarted } from '../../../protocol/event.ts';
import { textOf } from '../../../protocol/message.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { foldAll } from '../../golden/golden-journal.ts';
import { calls, eventsOf, makeTracedTool } from '../../support/engine/agents.ts';
import { watchStore } from '../../support/engine/watched-store.ts';
import { FROM_OLDER, OLDER, put } from '../../support/versions/old-journals.ts';

/** A parent whose sub-agent pays behind an approval. */
function makeFamily(store: Store, keys: string[], options: Partial<AgentOptions> = {}) {
  const host = new ManualHost();
  const payer = createAgent({
    name: 'payer',
    model: scripted([calls('pay'), { text: 'paid' }]),
    tools: [makeTracedTool('pay', keys, { approval: true })],
  });
  const agent = createAgent({
    name: 'writer',
    version: '1',
    host,
    store,
    model: scripted([calls(['ask', { input: 'pay' }]), { text: 'told' }]),
    tools: [payer.asTool({ name: 'ask', description: 'Pays.' })],
    migrations: [FROM_OLDER],
    ...options,
  });
  return { agent, host };
}

/** A parent that waits for its child, which waits for an approval. */
async function waiting() {
  const store = memory();
  const { agent, host } = makeFamily(store, []);
  const run = await agent.start('go', { runId: 'parent' });
  const settled = await host.settle(run.settled());
  const [open] = settled.status === 'waiting' ? settled.approvals : [];
  if (open === undefined) throw new Error('nothing waits for approval');
  return { store, childId: open.runId, callId: open.callId };
}

/** The same runs as an earlier chart would have written them. */
async function writtenByOlder(store: Store): Promise<Store> {
  const older = memory();
  for (const { runId } of (await store.list()).runs.reverse()) {
    const events = (await eventsOf(store, runId)).filter(({ type }) => type !== 'run.claimed');
    const [started, ...rest] = events as [RunStarted, ...RunEvent[]];
    const last = foldAll(events).at(-1);
    if (last === undefined) throw new Error(`run ${runId} is empty`);
    await put(older, [{ ...started, chart: OLDER }, ...rest], statusOf(last));
  }
  return older;
}

const NEXT = {
  from: { agent: '1' },
  to: { agent: '2' },
  migrate: (events: readonly object[]) => events as never,
};

describe('a run that waits for a sub-agent', () => {
  test.each([
    ['of an older chart', async () => await writtenByOlder((await waiting()).store), {}],
    [
      'of another version of its agent',
      async () => (await waiting()).store,
      { migrations: [NEXT], version: '2' },
    ],
  ])("%s is migrated with its sub-agent's run, and both finish", async (_, makeStore, options) => {
    const store = await makeStore();
    const before = JSON.stringify(
      await Promise.all((await store.list()).runs.map(({ runId }) => store.read(runId))),
    );
    const keys: string[] = [];
    const { agent, host } = makeFamily(store, keys, options);
    const old = (await store.list()).runs.map(({ runId }) => runId);
    const run = await agent.migrate('parent');
    const after = await Promise.all(old.map(runId => store.read(runId)));
    expect(JSON.stringify(after)).toBe(before);
    const settled = await host.settle(run.settled());
    const [open] = settled.status === 'waiting' ? settled.approvals : [];
    expect(open?.runId).toMatch(/_m2$/);
    expect(keys).toEqual([]);
    expect(await run.approve(open?.callId ?? '')).toMatchObject({ accepted: true });
    expect(await host.settle(run.settled())).toMatchObject({
      status: 'finished',
      text: 'told',
      results: [{ output: 'paid' }],
    });
    expect(keys).toHaveLength(1);
    expect((await store.list()).runs).toHaveLength(4);
  });

  test('is migrated by a second attempt when the first process died between the two runs', async () => {
    const older = await writtenByOlder((await waiting()).store);
    let left = 1;
    const store = watchStore(older, {
      beforeAppend: () => {
        left -= 1;
        if (left < 0) throw new Error('the process ended');
      },
    });
    const { agent, host } = makeFamily(store, []);
    await expect(agent.migrate('parent')).rejects.toThrow('the process ended');
    left = 100;
    const run = await agent.migrate('parent');
    expect(await host.settle(run.settled())).toMatchObject({ status: 'waiting', approvals: [{}] });
    expect((await older.list()).runs).toHaveLength(4);
  });

  test("is not migrated when the sub-agent's run cannot be read, and nothing is written", async () => {
    const { store, childId } = await waiting();
    const older = await writtenByOlder(store);
    const newer = watchStore(older, {});
    newer.readJson = async (runId, limit) => {
      const entries = (await older.readJson?.(runId, limit)) ?? [];
      if (runId !== childId) return entries;
      return entries.map(entry =>
        entry.seq === 1 ? { ...entry, event: { ...(entry.event as object), format: 99 } } : entry,
      );
    };
    await expect(makeFamily(newer, []).agent.migrate('parent')).rejects.toMatchObject({
      code: 'chart-mismatch',
      details: { runId: childId, verdict: 'refused' },
    });
    expect((await older.list()).runs).toHaveLength(2);
  });
});

describe('a run with work in the background', () => {
  /** A shop that ships in the background, and whose clerk pays there behind an approval. */
  function makeShop(store: Store, keys: string[], options: Partial<AgentOptions> = {}) {
    const host = new ManualHost();
    const clerk = createAgent({
      name: 'clerk',
      model: scripted([calls('pay'), { text: 'paid' }]),
      tools: [makeTracedTool('pay', keys, { approval: true })],
    });
    const ship = makeTracedTool('ship', keys, {
      background: true,
      run: () => {
        keys.push('ship');
        throw new InDoubt('Perhaps.');
      },
    });
    const agent = createAgent({
      name: 'writer',
      version: '1',
      host,
      store,
      model: scripted([
        calls(['ship', { to: 'Ann' }], ['clerk', { input: 'pay' }]),
        ...['Started.', 'Told.', 'Told.', 'Told.'].map(text => ({ text })),
      ]),
      tools: [ship, clerk.asTool({ name: 'clerk', description: 'Pays.', background: true })],
      migrations: [FROM_OLDER],
      ...options,
    });
    return { agent, host };
  }

  /** The shop waits for an approval of its clerk, and for someone who knows whether it shipped. */
  async function working() {
    const store = memory();
    const keys: string[] = [];
    const { agent, host } = makeShop(store, keys);
    const run = await agent.start('go', { runId: 'parent' });
    expect(await host.settle(run.settled())).toMatchObject({ approvals: [{}], doubts: [{}] });
    return store;
  }

  /** A step that gives the parcel another address. */
  const READDRESSED = {
    ...NEXT,
    migrate: (events: readonly object[]) => JSON.parse(JSON.stringify(events).replaceAll('Ann', 'Bob')),
  };

  test.each<[string, () => Promise<Store>, Partial<AgentOptions>, string]>([
    ['an older chart', async () => await writtenByOlder(await working()), {}, 'Ann'],
    ['another version of its agent', working, { migrations: [READDRESSED], version: '2' }, 'Bob'],
  ])('of %s is migrated with the runs that do it', async (_, makeStore, options, to) => {
    const store = await makeStore();
    const keys: string[] = [];
    const { agent, host } = makeShop(store, keys, options);
    const run = await agent.migrate('parent');
    const settled = await host.settle(run.settled());
    if (settled.status !== 'waiting') throw new Error(settled.status);
    const [approval] = settled.approvals;
    const [doubt] = settled.doubts;
    expect([approval?.runId, doubt?.runId]).toEqual([
      expect.stringMatching(/_m2$/),
      expect.stringMatching(/_m2$/),
    ]);
    const ship = await store.get(doubt?.runId ?? '');
    expect(ship?.agentVersion).toBe(options.version ?? '1');
    expect(doubt).toMatchObject({ input: { to }, digest: digestCall('ship', { to }) });
    await run.resolve(doubt?.callId ?? '', { happened: true, output: 'shipped' });
    await run.approve(approval?.callId ?? '');
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished', text: 'Told.' });
    expect(keys).toHaveLength(1);
    const outcomes = run.context.transcript.flatMap(item =>
      item.type === 'message' && item.outcomeOf !== undefined ? [textOf(item)] : [],
    );
    expect(outcomes.toSorted()).toEqual([
      'The background work of call call_0_0 (ship) has ended. The tool returned:\nshipped',
      'The background work of call call_0_1 (clerk) has ended. The tool returned:\npaid',
    ]);
    expect((await store.list()).runs).toHaveLength(6);
  });
});
