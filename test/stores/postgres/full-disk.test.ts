import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { begin } from '../../../stores/conformance/check.ts';
import type { PostgresPool } from '../../../stores/postgres/database.ts';
import { postgres } from '../../../stores/postgres.ts';
import { fail } from '../../support/stores/make-journal.ts';
import { POSTGRES_BIN, type PostgresServer, startPostgres } from '../../support/stores/postgres-server.ts';

describe.skipIf(POSTGRES_BIN === undefined)('a PostgreSQL server', () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  test('whose disk is full is a full store until a write finds room, which leaves nothing behind', async () => {
    const pool = new pg.Pool({ connectionString: server.url });
    // A pool without this listener throws the error of an idle connection, which the server ends when it stops.
    pool.on('error', () => {});
    let isFull = false;
    const refuse = (text: string) => {
      if (!isFull || !/^\s*(INSERT|WITH)/.test(text)) return;
      throw Object.assign(new Error('could not extend file: No space left on device'), { code: '53100' });
    };
    const full: PostgresPool = {
      query: async (text, values) => {
        refuse(text);
        return await pool.query(text, values);
      },
      connect: async () => {
        const client = await pool.connect();
        return {
          query: async (text, values) => {
            refuse(text);
            return await client.query(text, values === undefined ? [] : [...values]);
          },
          release: error => client.release(error),
          on: () => {},
          off: () => {},
        };
      },
      end: () => pool.end(),
      on: () => {},
    };
    const store = postgres(full, { schema: 'full' });
    await store.create(begin('a'));
    isFull = true;
    await store.assertRoom?.();
    expect(await fail(store.create(begin('b')))).toMatchObject({ code: 'store-full' });
    expect(await fail(store.assertRoom?.() ?? Promise.resolve())).toMatchObject({ code: 'store-full' });
    isFull = false;
    await store.assertRoom?.();
    isFull = true;
    await store.assertRoom?.();
    isFull = false;
    expect((await pool.query('SELECT * FROM "full".listeners')).rows).toEqual([]);
    expect(await store.create(begin('b'))).toMatchObject({ seq: 1 });
    await store.close();
    await pool.end();
  });
});
