import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import { statusOf } from '../../../machines/status.ts';
import type { RunEvent, RunStarted } from '../../../protocol/event.ts';
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
