import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';
import { begin } from '../../../stores/conformance/check.ts';
import { storeChecks } from '../../../stores/conformance.ts';
import { describeDatabase, runTransaction } from '../../../stores/postgres/database.ts';
import { migrate, quoteSchema, type SchemaSteps } from '../../../stores/postgres/schema.ts';
import { postgres } from '../../../stores/postgres.ts';
import { POSTGRES_BIN, type PostgresServer, startPostgres } from '../../support/stores/postgres-server.ts';
import { storesIn } from '../../support/stores/stores-under-test.ts';

describe.skipIf(POSTGRES_BIN === undefined)('the postgres store', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  describe('conforms', () => {
    const stores = storesIn(() => ({ url: server.url }));
    const checks = storeChecks({ ...stores, disconnect: () => server.cutConnections() });
    for (const { name, run } of checks) test(name, run);
  });

  test.each(['user', 'select', 'Runs', 'Über-Runs 2', 'public'])(
    'has its tables in the schema %s, drives runs there, and tells others of them',
    async schema => {
      const [store, other] = [postgres(server.url, { schema }), postgres(server.url, { schema })];
      const told = Promise.withResolvers<void>();
      const run = await createAgent({ name: 'a', model: scripted([{ text: 'done' }]), store }).start('go');
      expect((await run.settled()).status).toBe('finished');
      other.watchWork?.(() => void other.list().then(({ runs }) => runs.length === 2 && told.resolve()));
      await store.create(begin('b'));
      await told.promise;
      const request = { agents: [{ name: 'refunds' }], limit: 5, reserveMs: 0, now: 0 };
      expect((await other.takeWork?.(request))?.map(({ runId }) => runId)).toEqual(['b']);
      expect(await other.feed?.end()).toBeDefined();
      expect(await describeDatabase(server.url, schema)).toMatchObject({ version: 1, current: 1 });
      const client = new pg.Client(server.url);
      await client.connect();
      const { rows } = await client.query('SELECT 1 FROM pg_tables WHERE schemaname = $1', [schema]);
      expect(rows.length).toBeGreaterThan(3);
      await client.end();
      for (const each of [store, other]) await each.close();
    },
  );

  test('quotes all words that the server reserves', async () => {
    const client = new pg.Client(server.url);
    await client.connect();
    const { rows } = await client.query(
      "SELECT word FROM pg_get_keywords() WHERE catcode IN ('R', 'T') AND word NOT LIKE 'pg\\_%'",
    );
    await client.end();
    expect(rows.length).toBeGreaterThan(50);
    expect(rows.filter(({ word }) => quoteSchema(word) !== `"${word}"`)).toEqual([]);
  });

  test.each(['', 'pg_own', 'a"b', "a'b", 'a;b', 'x'.repeat(41), '五'.repeat(20)])(
    'refuses the schema %j',
    schema => {
      expect(() => postgres(server.url, { schema })).toThrow(/Expected a schema/);
    },
  );

  test('takes tables of an older version through the steps to its own, once, and refuses newer ones', async () => {
    const schema = 'stepped';
    expect(await describeDatabase(server.url, schema)).toMatchObject({
      version: null,
      synchronousCommit: 'on',
    });
    const store = postgres(server.url, { schema });
    await store.create(begin('a', { agent: { name: 'refunds', version: '7' } }));
    const steps: SchemaSteps = [
      name => `ALTER TABLE ${name}.runs ADD COLUMN colour text NOT NULL DEFAULT 'red'`,
      name => `ALTER TABLE ${name}.runs RENAME COLUMN last_sum TO end_sum`,
    ];
    const pool = new pg.Pool({ connectionString: server.url }).on('error', () => {});
    const migrateTo = async (count: number) =>
      await runTransaction(pool, query => migrate(query, schema, steps.slice(0, count)));
    await migrateTo(1);
    expect(await store.get('a')).toMatchObject({ runId: 'a', agentVersion: '7' });
    await Promise.all([migrateTo(2), migrateTo(2), migrateTo(2)]);
    const { rows } = await pool.query(`SELECT run_id, colour, end_sum FROM ${schema}.runs`);
    expect(rows).toEqual([{ run_id: 'a', colour: 'red', end_sum: expect.any(String) }]);
    await expect(store.create(begin('b'))).rejects.toThrow(/last_sum/);
    await expect(migrateTo(1)).rejects.toMatchObject({ code: 'store-unavailable' });
    await expect(describeDatabase(server.url, schema)).rejects.toMatchObject({
      message: expect.stringContaining('have version 3, this release knows 1'),
    });
    await store.close();
    await pool.end();
  });
});
