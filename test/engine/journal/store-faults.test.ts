import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import { EngineError } from '../../../protocol/error.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeTracedTool } from '../../support/engine/agents.ts';
import { type Watch, watchStore } from '../../support/engine/watched-store.ts';

type Fault = { name: string; error: EngineError; watch: (fail: () => void) => Watch };

const locked = new EngineError('store-locked', 'The store is locked by another process. Try again.');
const full = new EngineError('store-unavailable', 'The disk is full. Make room and open the run again.');
const lost = new EngineError('store-unavailable', 'The connection was lost before the answer came.');

const FAULTS: Fault[] = [
  { name: 'fails before its commit', error: full, watch: fail => ({ beforeAppend: fail }) },
  { name: 'is locked', error: locked, watch: fail => ({ beforeAppend: fail }) },
  { name: 'fails after its commit', error: lost, watch: fail => ({ afterAppend: fail }) },
];

function makeAgent(host: ManualHost, store: Store, keys: string[]) {
  return createAgent({
    name: 'a',
    host,
    store,
    model: scripted([calls('pay', 'pay', 'read'), calls('act', 'pay'), { text: 'done' }]),
    tools: [
      makeTracedTool('pay', keys),
      makeTracedTool('act', keys, { approval: true }),
      makeTracedTool('read', keys, { sideEffect: 'none' }),
    ],
  });
}

/** Drives the run to its end; approves calls, and resolves calls in doubt from `keys`. */
async function workToTheEnd(host: ManualHost, store: Store, keys: string[]) {
  const run = await makeAgent(host, store, keys).open('run_1');
  for (;;) {
    const settled = await host.settle(run.settled());
    if (settled.status !== 'waiting') return settled;
    for (const { callId } of settled.approvals) await run.approve(callId);
    for (const { callId } of settled.doubts) {
      const happened = keys.some(key => key.endsWith(callId));
      await run.resolve(callId, happened ? { happened: true, output: 'found' } : { retry: true });
    }
  }
}

describe('a store that fails', () => {
  test.each(FAULTS)('in an append that $name stops the driver with its error', async ({ error, watch }) => {
    let fired = 0;
    for (let at = 2; ; at += 1) {
      const inner = memory();
      const host = new ManualHost();
      const keys: string[] = [];
      let appends = 0;
      let failed = false;
      const fail = () => {
        appends += 1;
        if (appends !== at) return;
        failed = true;
        throw error;
      };
      const store = watchStore(inner, watch(fail));
      const run = await makeAgent(host, store, keys).start('go', { runId: 'run_1' });
      const first = async () => {
        const settled = await run.settled();
        if (settled.status !== 'waiting') return settled;
        await run.approve('call_1_0');
        return await run.settled();
      };
      const outcome = await host.settle(first().catch(thrown => thrown));
      if (!failed) break;
      fired += 1;
      expect(outcome, `append ${at}`).toBe(error);

      await loadRun(inner, 'run_1');
      const later = new ManualHost({ now: host.now() + 60_000, name: 'b' });
      expect((await workToTheEnd(later, inner, keys)).status, `append ${at}`).toBe('finished');
      const once = keys.filter(key => !key.endsWith('call_0_2'));
      expect(new Set(once).size, `append ${at}`).toBe(once.length);
      expect(once, `append ${at}`).toHaveLength(4);
    }
    expect(fired).toBeGreaterThan(4);
  });

  test.each(['claim', 'read', 'release', 'saveSnapshot'])(
    'once in %s reports the error to the caller, and the next attempt continues',
    async method => {
      const inner = memory();
      const host = new ManualHost();
      const keys: string[] = [];
      let failures = 0;
      let armed = false;
      const store = watchStore(inner, {
        before: called => {
          if (!armed || called !== method) return;
          armed = false;
          failures += 1;
          throw locked;
        },
      });
      const run = await makeAgent(host, store, keys).start('go');
      await run.settled();
      await appendNotes(inner, run.id, 64);
      armed = true;
      const outcome = async () => {
        await run.approve('call_1_0');
        return await run.settled();
      };
      const first = await host.settle(outcome().catch(thrown => thrown));
      if (first instanceof Error) expect(first).toBe(locked);
      if (method === 'read' || method === 'claim') await run.approve('call_1_0');
      expect((await host.settle(run.settled())).status).toBe('finished');
      expect(failures).toBe(1);
      expect(new Set(keys).size).toBe(keys.length);
    },
  );

  test('a permanent failure is reported each time, without retries in the background', async () => {
    const inner = memory();
    const host = new ManualHost();
    let appends = 0;
    const store = watchStore(inner, {
      beforeAppend: (_, [event]) => {
        if (event?.type === 'run.started') return;
        appends += 1;
        throw full;
      },
    });
    const run = await makeAgent(host, store, []).start('go');
    await expect(host.settle(run.settled())).rejects.toBe(full);
    await expect(host.settle(run.settled())).rejects.toBe(full);
    const tried = appends;
    await host.advance(60_000);
    expect(appends).toBe(tried);
  });

  test('readers of the run get the error, too', async () => {
    const inner = memory();
    const host = new ManualHost();
    let broken = false;
    const store = watchStore(inner, {
      before: () => {
        if (broken) throw full;
      },
    });
    const agent = makeAgent(host, store, []);
    const run = await agent.start('go');
    await run.settled();
    broken = true;
    const read = async () => {
      for await (const _ of run.events());
    };
    await expect(read()).rejects.toBe(full);
    await expect(run.approve('call_1_0')).rejects.toBe(full);
  });
});

/** Appends `count` notes, so that a snapshot is due at the next rest. */
async function appendNotes(store: Store, runId: string, count: number): Promise<void> {
  const { seq = 0, status = 'waiting' } = (await store.get(runId)) ?? {};
  const note = { type: 'run.noted', at: 1, by: 'test', note: 'more' } as const;
  await store.append(
    runId,
    { after: seq, input: true },
    Array.from({ length: count }, () => note),
    { status },
  );
}

test('a decision whose append failed can be submitted again', async () => {
  const host = new ManualHost();
  const keys: string[] = [];
  let failures = 0;
  const store = watchStore(memory(), {
    beforeAppend: (_, events) => {
      if (failures > 0 || !events.some(({ type }) => type === 'approval.decided')) return;
      failures += 1;
      throw full;
    },
  });
  const run = await createAgent({
    name: 'a',
    host,
    store,
    model: scripted([calls('act'), { text: 'done' }]),
    tools: [makeTracedTool('act', keys, { approval: true })],
  }).start('go');
  await host.settle(run.settled());
  await expect(run.approve('call_0_0')).rejects.toBe(full);
  expect(await run.approve('call_0_0')).toEqual({ accepted: true });
  expect(await host.settle(run.settled())).toMatchObject({ status: 'finished' });
  expect(keys).toHaveLength(1);
});
