import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';
import type { Store } from '../../../protocol/store.ts';
import { postgres } from '../../../stores/postgres.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { POSTGRES_BIN, type PostgresServer, startPostgres } from '../../support/stores/postgres-server.ts';

/** An agent whose only call takes until its driver ends. */
function makeIdler(store: Store) {
  const run = async (_: unknown, { signal }: { signal: AbortSignal }) => {
    await delay(2 ** 30, undefined, { signal, ref: false });
    return 'over';
  };
  return createAgent({
    name: 'idler',
    model: scripted([calls('wait'), { text: 'done' }]),
    tools: [makeTool('wait', { sideEffect: 'none', run })],
    store,
  });
}

async function begin(store: Store) {
  const run = await makeIdler(store).start('Wait.');
  const ended = run.settled();
  ended.catch(() => {});
  await expect.poll(() => run.context.calls.map(({ status }) => status)).toEqual(['running']);
  return { run, ended };
}

/** The store; counts its calls. */
function countCalls(store: Store) {
  const counted = { calls: 0 };
  const proxy = new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== 'function') return member;
      return (...args: unknown[]) => {
        counted.calls += 1;
        return Reflect.apply(member, target, args);
      };
    },
  });
  return { store: proxy, counted };
}

describe.skipIf(POSTGRES_BIN === undefined)('drivers on PostgreSQL', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  test('have the messages of other processes long before they would look for them', async () => {
    const [store, other] = [1, 2].map(() => postgres(server.url, { schema: 'messages' }));
    if (store === undefined || other === undefined) throw new Error('Two stores expected.');
    const { run, ended } = await begin(store);
    const foreign = await makeIdler(other).open(run.id);
    // The connection that listens may be under way: what comes before it is found when it is there.
    await foreign.send('first');
    await expect.poll(() => run.context.inbox.length).toBe(1);
    const latencies: number[] = [];
    for (let sent = 2; sent < 12; sent += 1) {
      await foreign.send(`message ${sent}`);
      const before = performance.now();
      while (run.context.inbox.length < sent) await delay(1);
      latencies.push(performance.now() - before);
    }
    // Without notifications it would look every 3.3 s.
    expect(latencies.sort((a, b) => a - b)[5]).toBeLessThan(500);
    await foreign.cancel();
    expect((await ended).status).toBe('cancelled');
    await store.close();
    await other.close();
  });

  test('that only wait need less than one call a second each', async () => {
    const inner = postgres(server.url, { schema: 'idle' });
    const { store, counted } = countCalls(inner);
    const begun = await Promise.all(Array.from({ length: 30 }, () => begin(store)));
    await delay(500);
    counted.calls = 0;
    await delay(4_000);
    expect(counted.calls / 4 / begun.length).toBeLessThan(1);
    expect(counted.calls).toBeGreaterThan(0);
    await Promise.all(begun.map(({ run }) => run.cancel()));
    await inner.close();
  });

  test('whose server crashes again and again have as many connections afterwards as before', async () => {
    const store = postgres(server.url, { schema: 'reconnecting' });
    let told = 0;
    const end = store.watchWork?.(() => {
      told += 1;
    });
    const countConnections = async () => {
      const client = new pg.Client(server.url);
      await client.connect();
      const { rows } = await client.query(
        `SELECT count(*)::int AS count FROM pg_stat_activity WHERE application_name = 'agentchart listener'`,
      );
      await client.end();
      return Number(rows[0]?.count);
    };
    await expect.poll(countConnections).toBe(1);
    for (let crash = 0; crash < 2; crash += 1) {
      const before = told;
      await server.crash();
      await delay(300);
      await server.start();
      await expect.poll(() => told).toBeGreaterThan(before);
      expect(await countConnections()).toBe(1);
    }
    end?.();
    await store.close();
    await expect.poll(countConnections).toBe(0);
  });
});
