import pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { latestIn } from '../../../protocol/store.ts';
import { begin } from '../../../stores/conformance/check.ts';
import { postgres } from '../../../stores/postgres.ts';
import { POSTGRES_BIN, type PostgresServer, startPostgres } from '../../support/stores/postgres-server.ts';

const ENDED = { events: [], status: 'finished' } as const;

describe.skipIf(POSTGRES_BIN === undefined)('a run that follows one that is being deleted', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());
  const closing: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
  });

  async function open() {
    const url = await server.createDatabase();
    const store = postgres(url);
    const client = new pg.Client(url);
    await client.connect();
    await store.create(begin('a', { thread: 't' }), undefined, { ...ENDED, place: { after: null } });
    const isBlocked = async () => {
      const blocked = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
      return (await client.query(blocked)).rowCount === 1;
    };
    closing.push(async () => {
      await client.end();
      await store.close();
    });
    return { store, client, isBlocked };
  }

  test('is refused once the deletion has committed', async () => {
    const { store, client, isBlocked } = await open();
    await client.query('BEGIN');
    await client.query(`SELECT 1 FROM agentchart.runs WHERE run_id = 'a' FOR UPDATE`);
    const follows = store
      .create(begin('b', { thread: 't', continues: 'a' }), undefined, { ...ENDED, place: { after: 'a' } })
      .catch(latestIn);
    await expect.poll(isBlocked).toBe(true);
    await client.query(`DELETE FROM agentchart.runs WHERE run_id = 'a'`);
    await client.query('COMMIT');
    expect(await follows).toEqual({ latest: null });
  });

  test('keeps the run that it follows, if it commits before', async () => {
    const { store, client, isBlocked } = await open();
    const columns = `agent, title, search, labels, thread, thread_key, status, turns, tokens, cached, cached_of, cost, active_ms, doubted, created_at, updated_at, base, seq, last_sum, epoch`;
    await client.query('BEGIN');
    await client.query(`SELECT 1 FROM agentchart.runs WHERE run_id = 'a' FOR KEY SHARE`);
    const deleted = store.delete('a', { now: 5000 }).catch(error => error.code);
    await expect.poll(isBlocked).toBe(true);
    await client.query(`INSERT INTO agentchart.runs (run_id, continues, place, ${columns})
      SELECT 'b', 'a', 2, ${columns} FROM agentchart.runs WHERE run_id = 'a'`);
    await client.query('COMMIT');
    expect(await deleted).toBe('refused');
    expect((await store.list({ thread: 't' })).runs).toHaveLength(2);
  });
});
