import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { PostgresPool } from '../../../stores/postgres/database.ts';
import { postgres } from '../../../stores/postgres.ts';

const START_MS = 1_000_000;

/** A server that accepts no connection, and when it was asked for one, in ms. */
function makePool() {
  const asked: number[] = [];
  const pool: PostgresPool = {
    query: async () => ({ rows: [], rowCount: 0 }),
    async connect() {
      asked.push(Date.now() - START_MS);
      throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
    },
    end: async () => {},
    on() {},
  };
  return { pool, asked };
}

/** The pauses between the attempts of a minute to listen to a server that is away, in ms. */
async function watchForAMinute(random: number): Promise<number[]> {
  vi.setSystemTime(START_MS);
  vi.spyOn(Math, 'random').mockReturnValue(random);
  const { pool, asked } = makePool();
  const store = postgres(pool, { migrates: false });
  const end = store.watchWork?.(() => {});
  await vi.advanceTimersByTimeAsync(60_000);
  end?.();
  await store.close();
  return asked.slice(1).map((at, index) => at - (asked[index] ?? 0));
}

describe('the connection for notifications of a PostgreSQL server that is away', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] });
  });
  afterEach(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });

  test('is tried again after pauses that double up to two seconds', async () => {
    const pauses = await watchForAMinute(1);
    expect(pauses.slice(0, 7)).toEqual([100, 200, 400, 800, 1_600, 2_000, 2_000]);
    expect(new Set(pauses.slice(5))).toEqual(new Set([2_000]));
  });

  test('is tried again after at least half of such a pause, so that processes do not come back together', async () => {
    expect((await watchForAMinute(0)).slice(0, 7)).toEqual([50, 100, 200, 400, 800, 1_000, 1_000]);
  });

  test('is not tried again after the store is closed', async () => {
    const { pool, asked } = makePool();
    const store = postgres(pool, { migrates: false });
    store.watchWork?.(() => {});
    await vi.advanceTimersByTimeAsync(120);
    expect(asked).toHaveLength(2);
    await store.close();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(asked).toHaveLength(2);
  });
});
