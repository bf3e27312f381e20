import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';
import { begin, request } from '../../../stores/conformance/samples.ts';
import { storeChecks } from '../../../stores/conformance.ts';
import { describeDatabase } from '../../../stores/postgres/describe-database.ts';
import { quoteSchema } from '../../../stores/postgres/schema.ts';
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
      expect(await describeDatabase(server.url, schema)).toMatchObject({ version: 3 });
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

  test('is described, and lists runs in tables of an older release without migrating them', async () => {
    const schema = 'described';
    expect(await describeDatabase(server.url, schema)).toMatchObject({
      version: null,
      synchronousCommit: 'on',
    });
    const store = postgres(server.url, { schema });
    await store.create(begin('a', { agent: { name: 'refunds', version: '7' } }));
    await store.close();
    const client = new pg.Client(server.url);
    await client.connect();
    await client.query(`DROP INDEX ${schema}.runs_at_work, ${schema}.runs_to_wake`);
    await client.query(`ALTER TABLE ${schema}.runs DROP COLUMN reserved_until, DROP COLUMN redactions`);
    await client.query(`UPDATE ${schema}.meta SET version = 1`);
    await client.end();
    const old = postgres(server.url, { schema, migrates: false });
    expect((await old.list()).runs).toMatchObject([
      { runId: 'a', agentVersion: '7', chart: begin('a').chart },
    ]);
    expect(await old.get('a')).toMatchObject({ redactions: 0 });
    await old.close();
    expect(await describeDatabase(server.url, schema)).toMatchObject({ version: 1, current: 3 });
    const migrated = postgres(server.url, { schema });
    expect(await migrated.claim('a', request('one'))).toMatchObject({ type: 'claimed', epoch: 1 });
    expect(await describeDatabase(server.url, schema)).toMatchObject({ version: 3, current: 3 });
    await migrated.close();
  });
});
