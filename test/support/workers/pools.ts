import { afterAll, afterEach, beforeAll } from 'vitest';
import { TAKES_ALL } from '../sample.ts';
import { type PostgresProxy, startProxy } from '../stores/postgres-proxy.ts';
import { POSTGRES_BIN, type PostgresServer, startPostgres } from '../stores/postgres-server.ts';
import { WorkerPool } from './worker-pool.ts';

type Kind = 'postgres' | 'sqlite';

/** In `npm test` one store, the one that machines share if it is here. */
const HERE: Kind[] = POSTGRES_BIN === undefined ? ['sqlite'] : ['postgres', 'sqlite'];
export const STORES = TAKES_ALL ? HERE : HERE.slice(0, 1);

/** Makes the pools of a test file: closed after each test. Their databases are on one PostgreSQL server, if there is one. */
export function makePools() {
  let server: PostgresServer | undefined;
  const pools: WorkerPool[] = [];
  const proxies: PostgresProxy[] = [];
  beforeAll(async () => {
    if (POSTGRES_BIN === undefined)
      console.error('No PostgreSQL on this machine: its workers are not tested.');
    else server = await startPostgres();
  });
  afterEach(async () => {
    await Promise.all(pools.splice(0).map(pool => pool.close()));
    await Promise.all(proxies.splice(0).map(proxy => proxy.close()));
  });
  afterAll(async () => await server?.stop());
  return {
    /** A pool on a database of its own on the server, or on a file. */
    async make(kind: Kind): Promise<WorkerPool> {
      const pool = new WorkerPool(kind === 'postgres' ? await server?.createDatabase() : undefined);
      pools.push(pool);
      return pool;
    },
    /** A pool whose store and processes reach a database of their own through a proxy. */
    async makeBehindProxy(): Promise<{ pool: WorkerPool; proxy: PostgresProxy }> {
      if (server === undefined) throw new Error('There is no PostgreSQL on this machine.');
      const proxy = await startProxy(await server.createDatabase());
      const pool = new WorkerPool(proxy.url);
      proxies.push(proxy);
      pools.push(pool);
      return { pool, proxy };
    },
    server: () => server,
  };
}
