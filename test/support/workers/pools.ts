import { afterAll, afterEach, beforeAll } from 'vitest';
import { TAKES_ALL } from '../sample.ts';
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
  beforeAll(async () => {
    if (POSTGRES_BIN === undefined)
      console.error('No PostgreSQL on this machine: its workers are not tested.');
    else server = await startPostgres();
  });
  afterEach(async () => {
    await Promise.all(pools.splice(0).map(pool => pool.close()));
  });
  afterAll(async () => await server?.stop());
  return {
    /** A pool on a database of its own on the server, or on a file. */
    async make(kind: Kind): Promise<WorkerPool> {
      const pool = new WorkerPool(kind === 'postgres' ? await server?.createDatabase() : undefined);
      pools.push(pool);
      return pool;
    },
    server: () => server,
  };
}
