import { afterAll, beforeAll, describe, test } from 'vitest';
import { storeChecks } from '../../../stores/conformance.ts';
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
});
