import { afterEach, describe, expect, test } from 'vitest';
import { scripted } from '../../../../adapters/scripted.ts';
import { type Agent, createAgent } from '../../../../agent/agent.ts';
import { makeOwner } from '../../../../engine/host/owner.ts';
import type { JournalMigration } from '../../../../engine/versions/migrate-journal.ts';
import { chartIdentity } from '../../../../machines/snapshot.ts';
import type { RunStatus, Store } from '../../../../protocol/store.ts';
import { MIGRATE_AFTER_MS, WAKE_AFTER_MS } from '../../../../server/runs/migrate-orphans.ts';
import { createRunWorker, type RunWorker } from '../../../../server/runs/run-worker.ts';
import { POLL_INTERVAL_MS } from '../../../../server/runs/take-runs.ts';
import { memory } from '../../../../stores/memory.ts';
import { nonDrivingStore } from '../../../../stores/non-driving-store.ts';
import { sqlite } from '../../../../stores/sqlite.ts';
import { ManualHost } from '../../../../testing/manual-host.ts';
import { makeGate, makeTool } from '../../../support/engine/agents.ts';
import { childOf, makeFamily, PAYING, settleWith } from '../../../support/engine/family.ts';
import { FROM_OLDER, OLDER, put } from '../../../support/versions/old-journals.ts';

const RENAME: JournalMigration = { from: { agent: '1' }, to: { agent: '2' }, migrate: events => events };
const LONG_MS = 4 * MIGRATE_AFTER_MS;

let host = new ManualHost();
const started: RunWorker[] = [];
const stores: Store[] = [];
afterEach(async () => {
  for (const { taker } of started.splice(0)) taker.stop();
  for (const store of stores.splice(0)) await store.close();
  host = new ManualHost();
});

function open(kind: 'memory' | 'sqlite' = 'memory'): Store {
  const store = kind === 'memory' ? memory() : sqlite(':memory:');
  stores.push(store);
  return store;
}

/** An agent of this version; its tool `slow` works until `done`. */
function makeVersion(store: Store, version: string, done: Promise<unknown> = Promise.resolve()): Agent {
  const turns = [{ toolCalls: [{ name: 'slow', arguments: {} }] }, { text: `done by ${version}` }];
  const tools = [makeTool('slow', { run: () => done, sideEffect: 'none' })];
  const migrations = version === '1' ? [] : [RENAME];
  return createAgent({ name: 'desk', version, store, host, tools, migrations, model: scripted(turns) });
}

async function startWorker(
  store: Store,
  agent: Agent,
  slots = 8,
): Promise<{ stop(): void; log: string[]; taker: RunWorker['taker'] }> {
  const log: string[] = [];
  const worker = createRunWorker({
    store,
    host,
    slots,
    versions: 'own',
    log: line => log.push(line),
    agents: new Map([[agent.name, agent]]),
  });
  started.push(worker);
  await worker.taker.start();
  return { stop: () => worker.taker.stop(), log, taker: worker.taker };
}

async function statuses(store: Store): Promise<Record<string, RunStatus>> {
  const { runs } = await store.list();
  return Object.fromEntries(runs.map(({ runId, status }) => [runId, status]));
}

describe('a run of another version of its agent', () => {
  test('stays with the workers that have it, in both directions', async () => {
    const store = open();
    const [one, two] = [makeVersion(store, '1'), makeVersion(store, '2')];
    await store.create(one.input('go', { runId: 'first' }));
    await store.create(two.input('go', { runId: 'second' }));
    await startWorker(store, two);
    await host.advance(MIGRATE_AFTER_MS / 2);
    await startWorker(store, one);
    await host.advance(LONG_MS);
    expect(await statuses(store)).toEqual({ first: 'finished', second: 'finished' });
  });

  test('stays with a worker that has it while that one is busy with others', async () => {
    const store = open();
    const done = makeGate();
    const one = makeVersion(store, '1', done.promise);
    for (const runId of ['held', 'queued']) await store.create(one.input('go', { runId }));
    await startWorker(store, one, 1);
    await startWorker(store, makeVersion(store, '2'));
    await host.advance(LONG_MS);
    expect(await statuses(store)).toEqual({ held: 'running', queued: 'running' });
    done.open();
    await host.advance(LONG_MS);
    expect(await statuses(store)).toEqual({ held: 'finished', queued: 'finished' });
  });

  test.each(['memory', 'sqlite'] as const)(
    'is migrated and finished when no process has it: %s',
    async kind => {
      const store = open(kind);
      const done = makeGate();
      const one = makeVersion(store, '1', done.promise);
      const gone = await startWorker(store, one, 1);
      gone.stop();
      await store.create(one.input('go', { runId: 'left' }));
      const { log } = await startWorker(store, makeVersion(store, '2'));
      await host.advance(MIGRATE_AFTER_MS - POLL_INTERVAL_MS);
      expect(await statuses(store)).toEqual({ left: 'running' });
      await host.advance(LONG_MS);
      expect(await statuses(store)).toEqual({ left: 'cancelled', left_m2: 'finished' });
      expect(await store.get('left_m2')).toMatchObject({ agentVersion: '2', forkOf: { runId: 'left' } });
      expect(log).toEqual(['Run left was migrated to left_m2: no process drove its version.']);
      const last = (await store.read('left')).at(-1);
      expect(last?.event).toMatchObject({ type: 'run.noted', note: { migratedTo: 'left_m2' } });
    },
  );

  test('that was migrated is not taken by workers of its version that come back, nor resumed', async () => {
    const store = open();
    const one = makeVersion(store, '1');
    await store.create(one.input('go', { runId: 'left' }));
    await startWorker(store, makeVersion(store, '2'));
    await host.advance(LONG_MS);
    await startWorker(store, one);
    await host.advance(LONG_MS);
    expect(await statuses(store)).toEqual({ left: 'cancelled', left_m2: 'finished' });
    const run = await one.open('left');
    await expect(host.settle(run.settled())).rejects.toMatchObject({ code: 'refused' });
  });

  test('that was migrated takes no message in a process of its version', async () => {
    const store = open();
    const one = makeVersion(store, '1');
    await store.create(one.input('go', { runId: 'left' }));
    const run = await makeVersion(nonDrivingStore(store), '1').open('left');
    await startWorker(store, makeVersion(store, '2'));
    await host.advance(LONG_MS);
    await expect(run.send('go on')).rejects.toMatchObject({ code: 'refused' });
    const later = await makeVersion(nonDrivingStore(store), '1').open('left');
    await expect(later.send('go on')).rejects.toMatchObject({ code: 'refused' });
    await startWorker(store, one);
    await host.advance(LONG_MS);
    expect(await statuses(store)).toEqual({ left: 'cancelled', left_m2: 'finished' });
  });

  test('is left to its workers for as long again after the store was away', async () => {
    const store = open();
    const one = makeVersion(store, '1');
    await store.create(one.input('go', { runId: 'left' }));
    await startWorker(store, makeVersion(store, '2'));
    await host.advance(POLL_INTERVAL_MS);
    host.jump(LONG_MS);
    await host.advance(POLL_INTERVAL_MS);
    expect(await statuses(store)).toEqual({ left: 'running' });
    await startWorker(store, one);
    await host.advance(LONG_MS);
    expect(await statuses(store)).toEqual({ left: 'finished' });
  });

  test('stays as it is without a migration, is logged once with what to do, and is counted', async () => {
    const store = open();
    const two = makeVersion(store, '2');
    await store.create(makeVersion(store, '3').input('go', { runId: 'left' }));
    const { log, taker, stop } = await startWorker(store, two);
    await host.advance(LONG_MS);
    await host.advance(LONG_MS);
    expect(await store.get('left')).toMatchObject({ status: 'running', epoch: 0 });
    expect(log).toEqual([
      'Run left has something to do, and processes with these agents do not drive it (stranded): version 3 of agent "desk" began it, and this process has version 2. Keep a worker with version 3 of "desk" until the run ends, or continue it with `agentchart resume left`.',
    ]);
    expect(await taker.countWork(10)).toBe(0);
    expect(await taker.countLeft(10)).toBe(1);
    stop();
    await store.create(two.input('go', { runId: 'own' }));
    expect([await taker.countWork(10), await taker.countLeft(10)]).toEqual([1, 1]);
  });
});

describe('a run of an older chart', () => {
  test('is migrated with the run that waits for it', async () => {
    const from = memory();
    const { run } = await settleWith(makeFamily(PAYING, { store: from, host }), host);
    const child = await childOf(from, run.id);
    const store = open();
    const cut = { [run.id]: 'tool.suspended', [child]: 'run.started' };
    for (const [runId, last] of Object.entries(cut)) {
      const events = (await from.read(runId)).map(({ event }) => event);
      const kept = events.slice(0, events.findIndex(({ type }) => type === last) + 1);
      const [first, ...rest] = kept;
      if (first?.type !== 'run.started') throw new Error('it has no start');
      const status = runId === child ? 'running' : 'waiting';
      await put(store, [{ ...first, chart: OLDER }, ...rest], status);
    }
    await startWorker(store, makeFamily({ parent: { migrations: [FROM_OLDER] } }, { store, host }));
    await host.advance(LONG_MS);
    expect(await statuses(store)).toEqual({
      [run.id]: 'cancelled',
      [child]: 'cancelled',
      [`${run.id}_m2`]: 'finished',
      [`${child}_m2`]: 'finished',
    });
  });

  describe('that waits for a person', () => {
    const DEADLINE_MS = 60 * 60_000;

    /** An agent whose refunds wait for an approval that expires after an hour. */
    function makeDesk(store: Store): Agent {
      const approval = () => ({ required: true, expiresInMs: DEADLINE_MS });
      const turns = [{ toolCalls: [{ name: 'refund', arguments: {} }] }, { text: 'done' }];
      const tools = [makeTool('refund', { approval })];
      const migrations = [FROM_OLDER];
      return createAgent({ name: 'desk', store, host, tools, migrations, model: scripted(turns) });
    }

    /** Writes runs of the older chart that wait for an approval. */
    async function leave(store: Store, ...runIds: string[]): Promise<void> {
      const from = memory();
      for (const runId of runIds) {
        const run = await makeDesk(from).start('go', { runId });
        await host.settle(run.settled());
        const [first, ...rest] = (await from.read(runId)).map(({ event }) => event);
        if (first?.type !== 'run.started') throw new Error('it has no start');
        const standing = { status: 'waiting', wakeAt: host.now() + DEADLINE_MS } as const;
        await store.create({ ...first, chart: OLDER }, undefined, { ...standing, events: rest });
      }
    }

    /** What a worker of the older chart does: takes its runs, and gives each up at once, because it rests. */
    function startOlderWorker(store: Store): { taken: string[]; stop(): void } {
      const taken: string[] = [];
      const deadlines = new Map<string, number | undefined>();
      const owner = makeOwner('older');
      const look = async () => {
        for (const { runId, wakeAt } of (await store.list({ status: 'waiting' })).runs)
          if ((wakeAt ?? 0) > host.now()) deadlines.set(runId, wakeAt);
        const work = { agents: [{ name: 'desk' }], charts: [OLDER], limit: 8, reserveMs: 5_000 };
        for (const { runId } of (await store.takeWork?.({ ...work, now: host.now() })) ?? []) {
          const claim = await store.claim(runId, {
            owner,
            now: host.now(),
            leaseMs: 10_000,
            isDead: () => false,
          });
          if (claim.type !== 'claimed') continue;
          taken.push(runId);
          await store.release(runId, claim.epoch, deadlines.get(runId));
        }
      };
      let cancel = () => {};
      const poll = () => {
        void look();
        cancel = host.setTimer(POLL_INTERVAL_MS, poll);
      };
      poll();
      return { taken, stop: () => cancel() };
    }

    test.each(['memory', 'sqlite'] as const)(
      'is migrated when no process of its chart is there: %s',
      async kind => {
        const store = open(kind);
        await leave(store, 'one', 'two', 'three');
        const { log } = await startWorker(store, makeDesk(store));
        await host.advance(LONG_MS);
        expect(await statuses(store)).toEqual({
          ...{ one: 'cancelled', two: 'cancelled', three: 'cancelled' },
          ...{ one_m2: 'waiting', two_m2: 'waiting', three_m2: 'waiting' },
        });
        expect(log).toHaveLength(3);
        await expect(makeDesk(store).open('one')).rejects.toThrow('use run one_m2');
        const run = await makeDesk(store).open('one_m2');
        const settled = await host.settle(run.settled());
        const [call] = settled.status === 'waiting' ? settled.approvals : [];
        expect(await run.approve(call?.callId ?? '')).toEqual({ accepted: true });
        await host.advance(POLL_INTERVAL_MS);
        expect(await statuses(store)).toMatchObject({ one_m2: 'finished', two_m2: 'waiting' });
      },
    );

    test('stays, with its deadline, while a process of its chart is there, and is migrated after it has gone', async () => {
      const store = open();
      await leave(store, 'one', 'two');
      const deadline = (await store.get('one'))?.wakeAt;
      const older = startOlderWorker(store);
      await startWorker(store, makeDesk(store));
      await host.advance(10 * WAKE_AFTER_MS);
      expect(await statuses(store)).toEqual({ one: 'waiting', two: 'waiting' });
      expect((await store.get('one'))?.wakeAt).toBe(deadline);
      expect(new Set(older.taken)).toEqual(new Set(['one', 'two']));
      expect(older.taken.length).toBeLessThan(8);
      older.stop();
      await host.advance(20 * WAKE_AFTER_MS);
      expect(await statuses(store)).toEqual({
        ...{ one: 'cancelled', two: 'cancelled', one_m2: 'waiting', two_m2: 'waiting' },
      });
    });

    test('is not woken without a migration, nor if its chart is newer', async () => {
      const store = open();
      const newer = { version: chartIdentity().version + 1, hash: 'of the next release' };
      const from = memory();
      const run = await makeDesk(from).start('go', { runId: 'one' });
      await host.settle(run.settled());
      const [first, ...events] = (await from.read('one')).map(({ event }) => event);
      if (first?.type !== 'run.started') throw new Error('it has no start');
      await put(store, [{ ...first, chart: newer }, ...events], 'waiting');
      await startWorker(store, makeDesk(store));
      await host.advance(LONG_MS);
      expect(await store.get('one')).toMatchObject({ status: 'waiting', epoch: 0 });
      expect((await store.get('one'))?.wakeAt).toBeUndefined();
    });
  });
});
