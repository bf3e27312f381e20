import pg from 'pg';
import type { Store } from '../../../protocol/store.ts';
import type { StoreUnderTest } from '../../../stores/conformance.ts';
import { postgres } from '../../../stores/postgres.ts';

/**
 * Opens stores in a PostgreSQL server for the conformance checks, each in a schema with a clock that the checks set. They
 * share connections, which end with the server: each takes time to make.
 */
export function storesIn(server: () => { url: string; listen?: string }): StoreUnderTest {
  let schemas = 0;
  const opened = new Map<Store, Opened>();
  let pool: pg.Pool | undefined;
  const open = async (schema: string) => {
    const { url, ...options } = server();
    let now = 0;
    pool ??= new pg.Pool({ connectionString: url, max: 20 }).on('error', () => {}).setMaxListeners(0);
    const connections = pool;
    const store = postgres(connections, { schema, now: () => now, ...options });
    let made: Promise<unknown> | undefined;
    let isOpen = true;
    const setClock = async (time: number) => {
      now = time;
      made ??= store.get('none').then(() => connections.query(clockOf(schema)));
      await made;
      if (isOpen) await connections.query(`UPDATE ${schema}.clock SET ms = $1`, [time]);
    };
    const close = store.close.bind(store);
    store.close = async () => {
      isOpen = false;
      await close();
    };
    opened.set(store, { schema, setClock });
    await setClock(0);
    return store;
  };
  const schemaOf = (store: Store) => opened.get(store)?.schema ?? '';
  return {
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
  };
}

type Opened = { schema: string; setClock(now: number): Promise<void> };

/** Replaces the clock of the tables by one that the checks set. */
function clockOf(schema: string): string {
  return `CREATE TABLE IF NOT EXISTS ${schema}.clock AS SELECT 0::float8 AS ms;
    CREATE OR REPLACE FUNCTION ${schema}.now_ms() RETURNS float8 LANGUAGE sql VOLATILE
      AS 'SELECT ms FROM ${schema}.clock'`;
}
