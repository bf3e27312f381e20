import { expect, test } from 'vitest';
import { Database, type PostgresPool } from '../../../stores/postgres/database.ts';

test('a commit whose reply a crash lost counts, although it is seen only after the recovery', async () => {
  const outcomes = ['answered', 'ECONNRESET', 'ECONNREFUSED', 'answered'];
  const query = async () => {
    const outcome = outcomes.shift();
    if (outcome !== 'answered') throw Object.assign(new Error('The server is away.'), { code: outcome });
    return { rows: [], rowCount: 0 };
  };
  const client = { query, release() {}, on() {}, off() {} };
  const pool: PostgresPool = { query, connect: async () => client, end: async () => {}, on() {} };
  const options = { source: pool, schema: '"runs"', listen: undefined, migrates: false, patienceMs: 60_000 };
  const database = new Database({ ...options, warn() {} });
  await database.query('SELECT 1');
  const found = await database.queryOnce('INSERT', [], async () =>
    outcomes.length === 0 ? [{ seq: 2 }] : [],
  );
  expect(found).toEqual([{ seq: 2 }]);
});
