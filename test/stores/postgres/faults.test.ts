import { connect, createServer, type Socket } from 'node:net';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import { begin, makeOwner, receive, request } from '../../../stores/conformance/samples.ts';
import { postgres } from '../../../stores/postgres.ts';
import { createAgent, tool } from '../../../tools/agent/index.ts';
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
  return { paid, agent: createAgent({ name: 'payer', model, tools: [pay], store }) };
}

describe.skipIf(POSTGRES_BIN === undefined)('a PostgreSQL server', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres(['fsync=on']);
  });
  afterAll(() => server.stop());

  test('that crashes and comes back while runs are under way leaves no doubt, no loss and no double', async () => {
    const store = postgres(server.url, { schema: 'crash' });
    const { agent, paid } = makePayer(store);
    const runs = await Promise.all(Array.from({ length: 20 }, () => agent.start('Pay three times.')));
    const settled = Promise.all(runs.map(run => run.settled()));
    await expect.poll(() => paid.size).toBeGreaterThan(5);
    expect(paid.size).toBeLessThan(60);
    await server.crash();
    await server.start();
    expect((await settled).map(({ status }) => status)).toEqual(runs.map(() => 'finished'));
    expect([...paid.values()]).toEqual(Array.from({ length: 60 }, () => 1));
    const types = (await Promise.all(runs.map(run => store.read(run.id))))
      .flat()
      .map(({ event }) => event.type);
    expect(types.filter(type => type === 'run.claimed')).toHaveLength(20);
    expect(types).not.toContain('tool.interrupted');
    await store.close();
  });

  test('whose reply to a commit is lost: the append, the claim and the run count once', async () => {
    const proxy = await startProxy(server.url);
    const store = postgres(proxy.url, { schema: 'lost' });
    await store.get('none');
    proxy.dropNextReply(/INSERT INTO lost\.runs/);
    expect(await store.create(begin('a'))).toEqual({ epoch: 0, seq: 1 });
    proxy.dropNextReply(/INSERT INTO lost\.appends/);
    const guard = { after: 1, input: true } as const;
    expect(await store.append('a', guard, [receive('x')], { status: 'running' })).toEqual({
      type: 'appended',
      seq: 2,
    });
    proxy.dropNextReply(/INSERT INTO lost\.appends/);
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
      expect(refused).toMatchObject({ type: 'held', owner: makeOwner('one') });
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

  test('that the tables were restored to continues their feed, though it numbers its transactions anew', async () => {
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

/** A proxy that can cut a connection once the server has answered a statement, without passing the answer on. */
async function startProxy(url: string) {
  const { hostname, port } = new URL(url);
  let wanted: RegExp | undefined;
  let dropped = 0;
  const sockets = new Set<Socket>();
  const proxy = createServer(client => {
    const upstream = connect(Number(port), hostname);
    let isDoomed = false;
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        client.destroy();
        upstream.destroy();
      });
    }
    client.on('data', data => {
      if (wanted?.test(data.toString('latin1')) === true) {
        wanted = undefined;
        isDoomed = true;
      }
      upstream.write(data);
    });
    upstream.on('data', data => {
      if (!isDoomed) return void client.write(data);
      // "C": the statement is complete, and with it its transaction.
      if (!data.toString('latin1').includes('INSERT')) return;
      dropped += 1;
      client.destroy();
    });
  });
  proxy.listen(0, '127.0.0.1');
  await new Promise(resolve => proxy.once('listening', resolve));
  const address = proxy.address();
  const own = new URL(url);
  own.port = String(typeof address === 'object' ? address?.port : '');
  return {
    url: own.href,
    dropped: () => dropped,
    dropNextReply: (statement: RegExp) => {
      wanted = statement;
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise(resolve => proxy.close(resolve));
    },
  };
}
