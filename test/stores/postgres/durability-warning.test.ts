import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { postgres } from '../../../stores/postgres.ts';
import { built } from '../../support/built.ts';
import { PGBOUNCER, startPooler } from '../../support/stores/pooler.ts';
import { POSTGRES_BIN, type PostgresServer, startPostgres } from '../../support/stores/postgres-server.ts';
import { REFUNDS, WorkerPool } from '../../support/workers/worker-pool.ts';

describe.skipIf(POSTGRES_BIN === undefined)('synchronous_commit = off', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(async () => await server.stop());
  const pools: WorkerPool[] = [];
  afterEach(async () => {
    await Promise.all(pools.splice(0).map(pool => pool.close()));
  });

  /** A database in which `statement`, with its name for `$`, was run. */
  async function makeDatabase(statement?: string): Promise<string> {
    const url = await server.createDatabase();
    const client = new pg.Client(server.url);
    await client.connect();
    if (statement !== undefined)
      await client.query(statement.replaceAll('$', new URL(url).pathname.slice(1)));
    await client.end();
    return url;
  }

  async function warningsAt(url: string): Promise<string[]> {
    const warnings: string[] = [];
    const store = postgres(url, { warn: line => warnings.push(line) });
    await store.list({ limit: 1 });
    await store.close();
    return warnings;
  }

  const OFF = [expect.stringContaining('synchronous_commit = off')];

  test('is warned about where it is set: for the database, the role, or the connection', async () => {
    const ofDatabase = await makeDatabase('ALTER DATABASE $ SET synchronous_commit = off');
    expect(await warningsAt(ofDatabase)).toEqual(OFF);
    const on = await makeDatabase('CREATE ROLE hasty SUPERUSER LOGIN');
    expect(await warningsAt(on)).toEqual([]);
    const ofRole = await makeDatabase('ALTER ROLE hasty SET synchronous_commit = off');
    expect(await warningsAt(ofRole.replace('test@', 'hasty@'))).toEqual(OFF);
    expect(await warningsAt(`${on}?options=-c%20synchronous_commit%3Doff`)).toEqual(OFF);
  });

  test.skipIf(PGBOUNCER === undefined)('is warned about behind a pooler', async () => {
    const url = await makeDatabase('ALTER DATABASE $ SET synchronous_commit = off');
    const pooler = await startPooler(url);
    expect(await warningsAt(pooler.url)).toEqual(OFF);
    await pooler.stop();
  });

  test('is a warning of the process if the store has no other place for it', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const store = postgres(await makeDatabase('ALTER DATABASE $ SET synchronous_commit = off'));
    await store.list({ limit: 1 });
    await store.close();
    expect(warn.mock.calls).toEqual([[OFF[0], { code: 'AGENTCHART_POSTGRES' }]]);
    warn.mockRestore();
  });

  test('is in the log of a worker and of a server when they start, also as JSON and where Node prints no warnings', async () => {
    const url = await makeDatabase('ALTER DATABASE $ SET synchronous_commit = off');
    const pool = new WorkerPool(url);
    pools.push(pool);
    const log = ['--agent', built(REFUNDS), '--log', 'json'];
    const worker = pool.start(['worker', ...log]);
    const served = pool.start(['serve', '--port', '0', ...log]);
    for (const process of await Promise.all([worker, served])) {
      const output = await process.prints('synchronous_commit = off');
      const line = output.split('\n').find(one => one.includes('synchronous_commit')) ?? '';
      expect(JSON.parse(line)).toMatchObject({ level: 'warn' });
    }
  });
});
