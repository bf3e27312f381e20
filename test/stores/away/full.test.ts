import { expect, test } from 'vitest';
import type { PostgresPool } from '../../../stores/postgres/database.ts';
import { postgres } from '../../../stores/postgres.ts';

test('a PostgreSQL server whose disk is full has room again once a write succeeds', async () => {
  let isFull = true;
  const query = async (text: string) => {
    if (isFull && text.includes('INSERT'))
      throw Object.assign(new Error('could not extend file'), { code: '53100', severity: 'ERROR' });
    return { rows: [], rowCount: 0 };
  };
  const client = { query, release() {}, on() {}, off() {} };
  const pool: PostgresPool = { query, connect: async () => client, end: async () => {}, on() {} };
  const store = postgres(pool, { migrates: false });
  const { assertRoom = async () => {} } = store;
  await assertRoom();
  await expect(store.saveSnapshot('run', { seq: 1, state: {} })).rejects.toMatchObject({
    code: 'store-full',
  });
  for (let attempt = 0; attempt < 2; attempt += 1)
    await expect(assertRoom()).rejects.toMatchObject({ code: 'store-full' });
  isFull = false;
  await assertRoom();
});
