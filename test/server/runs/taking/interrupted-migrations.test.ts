import { describe, expect, test } from 'vitest';
import { scripted } from '../../../../adapters/scripted.ts';
import { type Agent, createAgent } from '../../../../agent/agent.ts';
import type { FaultPoint } from '../../../../engine/host/host.ts';
import type { JournalMigration } from '../../../../engine/versions/migrate-journal.ts';
import type { Store } from '../../../../protocol/store.ts';
import { MIGRATE_AFTER_MS } from '../../../../server/runs/migrate-orphans.ts';
import { createRunWorker } from '../../../../server/runs/run-worker.ts';
import { memory } from '../../../../stores/memory.ts';
import { nonDrivingStore } from '../../../../stores/non-driving-store.ts';
import { sqlite } from '../../../../stores/sqlite.ts';
import { ManualHost } from '../../../../testing/manual-host.ts';
import { calls, makeTool } from '../../../support/engine/agents.ts';
import { makeDyingProcess } from '../../../support/engine/dying-process.ts';

const RENAME: JournalMigration = { from: { agent: '1' }, to: { agent: '2' }, migrate: events => events };
const LONG_MS = 4 * MIGRATE_AFTER_MS;

type Worker = { version: '1' | '2'; store: Store; host: ManualHost; paid: string[] };

/** An agent that pays by itself, or has a sub-agent pay. */
function makePayer({ version, store, host, paid }: Worker, isFamily: boolean): Agent {
  const pay = makeTool('pay', {
    run: async (_, { runId }) => void paid.push(`${runId} by ${version}`),
    sideEffect: 'once',
    approval: isFamily,
  });
  const common = { version, host, store, migrations: version === '1' ? [] : [RENAME] };
  const payer = createAgent({
    ...common,
    name: 'payer',
    tools: [pay],
    model: scripted([calls('pay'), { text: 'paid' }]),
  });
  if (!isFamily) return payer;
  return createAgent({
    ...common,
    name: 'lead',
    tools: [payer.asTool({ name: 'payer', description: 'Pays.' })],
    model: scripted([calls(['payer', { input: 'pay' }]), { text: 'told' }]),
  });
}

async function startWorker(worker: Worker, isFamily: boolean): Promise<() => void> {
  const { store, host } = worker;
  const agent = makePayer(worker, isFamily);
  const { taker } = createRunWorker({
    store,
    host,
    slots: 8,
    versions: 'own',
    log() {},
    agents: new Map([[agent.name, agent]]),
  });
  await taker.start();
  return () => taker.stop();
}

/** A run of version 1 that has something to do; with a sub-agent, whose payment was approved. No process drives it. */
async function leaveRun(store: Store, isFamily: boolean): Promise<number> {
  const host: ManualHost = new ManualHost({ name: 'first_' });
  const worker: Worker = { version: '1', store, host, paid: [] };
  const agent = makePayer(worker, isFamily);
  if (!isFamily) {
    await store.create(agent.input('go', { runId: 'left' }));
    return host.now();
  }
  const settled = await host.settle((await agent.start('go', { runId: 'left' })).settled());
  const [call] = settled.status === 'waiting' ? settled.approvals : [];
  const run = await makePayer({ ...worker, store: nonDrivingStore(store) }, isFamily).open('left');
  const { accepted } = await run.approve(call?.callId ?? '', { runId: call?.runId ?? '' });
  expect(accepted).toBe(true);
  return host.now();
}

/** A worker of version 2 that dies at its `deathAt`-th fault point. Returns the point; `null` if it got to the end. */
async function migrateAndDie(store: Store, now: number, isFamily: boolean, deathAt: number) {
  const { host, store: dying, death } = makeDyingProcess(store, { now, name: 'second_', deathAt });
  const paid: string[] = [];
  const stop = await startWorker({ version: '2', store: dying, host, paid }, isFamily);
  await host.advance(LONG_MS);
  stop();
  return { died: death(), now: host.now(), paid };
}

describe.each(['memory', 'sqlite'] as const)('a migration on %s whose process dies at any point', kind => {
  test.each([
    ['', false],
    [' and its sub-agent', true],
  ])('leaves one of the old run and its successor to be driven%s, in either order', async (_, isFamily) => {
    const wrong: Record<string, unknown> = {};
    const passed = new Set<FaultPoint>();
    for (const first of ['1', '2'] as const)
      for (let at = 1; ; at += 1) {
        const store = kind === 'memory' ? memory() : sqlite(':memory:');
        const left = await leaveRun(store, isFamily);
        const { died, now, paid } = await migrateAndDie(store, left + 60_000, isFamily, at);
        const host = new ManualHost({ now: now + 120_000, name: 'third_' });
        const versions = first === '1' ? (['1', '2'] as const) : (['2', '1'] as const);
        for (const version of versions) {
          await startWorker({ version, store, host, paid }, isFamily);
          await host.advance(LONG_MS);
        }
        const { runs } = await store.list();
        const finished = runs.filter(
          ({ runId, status }) => runId.startsWith('left') && status === 'finished',
        );
        const open = runs.filter(({ status }) => status === 'running' || status === 'waiting');
        if (paid.length !== 1 || finished.length !== 1 || open.length > 0)
          wrong[`${first} ${at} ${died}`] = {
            paid,
            runs: runs.map(({ runId, status }) => [runId, status]),
          };
        await store.close();
        // The migration is done: a payment that has begun would be in doubt.
        if (died === null || died === 'model.before') break;
        passed.add(died);
      }
    expect(wrong).toEqual({});
    expect([...passed]).toEqual(expect.arrayContaining(['create.before', 'create.after']));
  });
});
