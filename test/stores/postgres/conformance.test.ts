import pg from 'pg';
import { afterAll, beforeAll, describe, test } from 'vitest';
import type { Store } from '../../../protocol/store.ts';
import { storeChecks } from '../../../stores/conformance.ts';
import { postgres } from '../../../stores/postgres.ts';
import { POSTGRES_BIN, type PostgresServer, startPostgres } from '../../support/stores/postgres-server.ts';

describe.skipIf(POSTGRES_BIN === undefined)('the postgres store', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  describe('conforms', () => {
    let schemas = 0;
    const opened = new Map<Store, Opened>();
    const open = async (schema: string) => {
      let now = 0;
      const pool = new pg.Pool({ connectionString: server.url, max: 4 });
      const store = postgres(pool, { schema, now: () => now });
      let made: Promise<unknown> | undefined;
      let ending: Promise<void> | undefined;
      const setClock = async (time: number) => {
        now = time;
        made ??= store.get('none').then(() => pool.query(clockOf(schema)));
        await made;
        if (ending === undefined) await pool.query(`UPDATE ${schema}.clock SET ms = $1`, [time]);
      };
      const close = store.close.bind(store);
      store.close = async () => {
        await close();
        ending ??= pool.end();
        await ending;
      };
      opened.set(store, { schema, setClock });
      await setClock(0);
      return store;
    };
    const schemaOf = (store: Store) => opened.get(store)?.schema ?? '';
    const checks = storeChecks({
      open: async () => {
        schemas += 1;
        return await open(`check_${schemas}`);
      },
      openAgain: store => open(schemaOf(store)),
      reopen: async store => {
        await store.close();
        return await open(schemaOf(store));
      },
      advance: async (store, now) => await opened.get(store)?.setClock(now),
      disconnect: () => server.cutConnections(),
    });
    for (const { name, run } of checks) test(name, run);
  });
});

type Opened = { schema: string; setClock(now: number): Promise<void> };

/** Replaces the clock of the tables by one that the checks set. */
function clockOf(schema: string): string {
  return `CREATE TABLE IF NOT EXISTS ${schema}.clock AS SELECT 0::float8 AS ms;
    CREATE OR REPLACE FUNCTION ${schema}.now_ms() RETURNS float8 LANGUAGE sql VOLATILE
      AS 'SELECT ms FROM ${schema}.clock'`;
}
