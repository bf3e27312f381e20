import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { begin } from '../../../stores/conformance/samples.ts';
import { storeChecks } from '../../../stores/conformance.ts';
import { describeDatabase } from '../../../stores/postgres/describe-database.ts';
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
    await client.query(`ALTER TABLE ${schema}.runs DROP COLUMN reserved_until`);
    await client.query(`UPDATE ${schema}.meta SET version = 1`);
    await client.end();
    const old = postgres(server.url, { schema, migrates: false });
    expect((await old.list()).runs).toMatchObject([
      { runId: 'a', agentVersion: '7', chart: begin('a').chart },
    ]);
    await old.close();
    expect(await describeDatabase(server.url, schema)).toMatchObject({ version: 1, current: 2 });
  });
});
