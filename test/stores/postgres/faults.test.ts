import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent, systemHost, tool } from '../../../agent/index.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import { begin, receive, request, testOwner } from '../../../stores/conformance/check.ts';
import { postgres } from '../../../stores/postgres.ts';
import { inAll } from '../../support/sample.ts';
import { startProxy } from '../../support/stores/postgres-proxy.ts';
import { POSTGRES_BIN, type PostgresServer, startPostgres } from '../../support/stores/postgres-server.ts';

/** An agent that pays three times with a `once` tool, which counts its payments by key. */
function makePayer(store: Store) {
  const paid = new Map<string, number>();
  const pay = tool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({}),
    run: async (_, { key }) => {
      paid.set(key, (paid.get(key) ?? 0) + 1);
      await new Promise(resolve => setTimeout(resolve, 20));
      return 'paid';
    },
  });
  const calls = { toolCalls: [{ name: 'pay', arguments: {} }], delayMs: 20 };
  const model = scripted([calls, calls, calls, { text: 'Done.' }]);
  const host = { ...systemHost, leaseMs: 1_000 };
  return { paid, agent: createAgent({ name: 'payer', model, tools: [pay], store, host }) };
}

describe.skipIf(POSTGRES_BIN === undefined)('a PostgreSQL server', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres(['fsync=on']);
  });
  afterAll(() => server.stop());

  /** Drives 40 runs through the fault: each payment is made once, and no run changes its driver or is in doubt. */
  async function driveThrough(store: Store, fault: () => Promise<void>) {
    const { agent, paid } = makePayer(store);
    const runs = await Promise.all(Array.from({ length: 40 }, () => agent.start('Pay three times.')));
    const settled = Promise.all(runs.map(run => run.settled()));
    await expect.poll(() => paid.size).toBeGreaterThan(5);
    expect(paid.size).toBeLessThan(120);
    await fault();
    expect((await settled).map(({ status }) => status)).toEqual(runs.map(() => 'finished'));
    expect([...paid.values()]).toEqual(Array.from({ length: 120 }, () => 1));
    const types = (await Promise.all(runs.map(run => store.read(run.id))))
      .flat()
      .map(({ event }) => event.type);
    expect(types.filter(type => type === 'run.claimed')).toHaveLength(40);
    expect(types).not.toContain('tool.interrupted');
    await store.close();
  }

  test('that crashes and comes back while 40 runs are under way leaves no doubt, no loss and no double', () =>
    driveThrough(postgres(server.url, { schema: 'crash' }), async () => {
      await server.crash();
      await server.start();
    }));

  inAll('that stands still for longer than a lease while 40 runs are under way changes no run', () =>
    driveThrough(postgres(server.url, { schema: 'paused' }), async () => {
      expect(await server.pauseFor(1_500)).toBeGreaterThan(1);
    }),
  );

  inAll(
    'whose replies to every fourth commit are lost while 40 runs are under way changes no run',
    async () => {
      const proxy = await startProxy(server.url);
      await driveThrough(postgres(proxy.url, { schema: 'cut' }), async () => {
        proxy.dropReplies(/INSERT INTO "cut"\.appends/, { every: 4, times: 40 });
        await expect.poll(() => proxy.dropped()).toBeGreaterThan(5);
      });
      await proxy.close();
    },
  );

  test('whose reply to a commit is lost: the append, the claim and the run count once', async () => {
    const proxy = await startProxy(server.url);
    const store = postgres(proxy.url, { schema: 'lost' });
    await store.get('none');
    proxy.dropReplies(/INSERT INTO "lost"\.runs/, { times: 1 });
    expect(await store.create(begin('a'))).toEqual({ epoch: 0, seq: 1 });
    proxy.dropReplies(/INSERT INTO "lost"\.appends/, { times: 1 });
    const guard = { after: 1, input: true } as const;
    expect(await store.append('a', guard, [receive('x')], { status: 'running' })).toEqual({
      type: 'appended',
      seq: 2,
    });
    proxy.dropReplies(/INSERT INTO "lost"\.appends/, { times: 1 });
    expect(await store.claim('a', request('one'))).toEqual({ type: 'claimed', epoch: 1, seq: 3 });
    expect(proxy.dropped()).toBe(3);
    expect((await store.read('a')).map(({ event }) => event.type)).toEqual([
      'run.started',
      'message.received',
      'run.claimed',
    ]);
    await store.close();
    await proxy.close();
  });

  test('decides when a lease ends: a clock that is 30 s off takes nothing and loses nothing', async () => {
    for (const skew of [-30_000, 30_000]) {
      const schema = skew < 0 ? 'behind' : 'ahead';
      const [right, wrong] = [0, skew].map(off =>
        postgres(server.url, { schema, now: () => Date.now() + off }),
      );
      if (right === undefined || wrong === undefined) throw new Error('Two stores expected.');
      const claimOf = (id: string, now: number) => request(id, { now, leaseMs: 5_000 });
      await right.create(begin('a'), claimOf('one', Date.now()));
      const refused = await wrong.claim('a', claimOf('two', Date.now() + skew));
      expect(refused).toMatchObject({ type: 'held', owner: testOwner('one') });
      const until = 'until' in refused ? refused.until : 0;
      expect(Math.abs(until - (Date.now() + skew + 5_000))).toBeLessThan(2_000);
      expect((await wrong.get('a'))?.leaseUntil).toBeGreaterThan(Date.now() + skew);
      const leases = [{ runId: 'a', epoch: 1 }];
      expect(await wrong.renew(leases, { now: Date.now() + skew, leaseMs: 5_000 })).toEqual([]);
      expect(await right.claim('a', claimOf('three', Date.now()))).toMatchObject({ type: 'held' });
      await Promise.all([right.close(), wrong.close()]);
    }
  });

  test('takes six stores that open an empty database at once: one makes the tables', async () => {
    const stores = Array.from({ length: 6 }, () => postgres(server.url, { schema: 'fresh' }));
    await Promise.all(stores.map((store, index) => store.create(begin(`run ${index}`))));
    expect((await stores[0]?.list())?.runs).toHaveLength(6);
    await Promise.all(stores.map(store => store.close()));
  });

  test('that numbers its transactions in another order than they commit hides no entry from a feed', async () => {
    const store = postgres(server.url, { schema: 'ordering' });
    await store.create(begin('a'));
    const client = new pg.Client(server.url);
    await client.connect();
    await client.query('BEGIN; SELECT pg_current_xact_id();');
    await store.create(begin('later'));
    const early = await store.feed?.read();
    expect(early?.entries.map(({ runId }) => runId)).toEqual(['a']);
    await client.query('UPDATE ordering.runs SET title = title; COMMIT');
    await store.append('a', { after: 1, input: true }, [receive('x')], { status: 'running' });
    const rest = await store.feed?.read(omitUndefined({ after: early?.next }));
    expect(rest?.entries.map(({ runId, seq }) => [runId, seq])).toEqual([
      ['later', 1],
      ['a', 2],
    ]);
    await client.end();
    await store.close();
  });

  test('that the tables were restored to continues their feed, though it numbers its transactions from the start', async () => {
    const before = postgres(server.url, { schema: 'restored' });
    await before.create(begin('a'));
    await before.close();
    const client = new pg.Client(server.url);
    await client.connect();
    await client.query('UPDATE restored.appends SET position = position + 1000000');
    await client.end();
    const store = postgres(server.url, { schema: 'restored' });
    const end = await store.feed?.end();
    await store.create(begin('b'));
    const next = await store.feed?.read(omitUndefined({ after: end }));
    expect(next?.entries.map(({ runId }) => runId)).toEqual(['b']);
    expect((await store.feed?.read())?.entries.map(({ runId }) => runId)).toEqual(['a', 'b']);
    await store.close();
  });

  test('that cannot be reached is reported at once, with what to check', async () => {
    const store = postgres('postgres://test:secret@127.0.0.1:1/none');
    await expect(store.get('a')).rejects.toThrow(
      expect.objectContaining({ code: 'store-unavailable', message: expect.not.stringContaining('secret') }),
    );
    await store.close();
  });

  test('takes the appends of four stores at once in one order, each once', async () => {
    const stores = Array.from({ length: 4 }, () => postgres(server.url, { schema: 'many' }));
    await stores[0]?.create(begin('a'));
    const outcomes = await Promise.all(
      Array.from({ length: 32 }, async (_, index) => {
        const store = stores[index % 4];
        for (let after = 1; ; ) {
          const event = receive(String(index));
          const result = await store?.append('a', { after, input: true }, [event], { status: 'running' });
          if (result?.type === 'appended') return result.seq;
          after = (await store?.get('a'))?.seq ?? 0;
        }
      }),
    );
    expect(outcomes.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 32 }, (_, index) => index + 2));
    expect(await stores[1]?.read('a')).toHaveLength(33);
    await Promise.all(stores.map(store => store.close()));
  });
});
