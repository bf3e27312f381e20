import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { PostgresPool } from '../../../stores/postgres/database.ts';
import { postgres } from '../../../stores/postgres.ts';

/** A server that answers every statement with nothing, and that can be away. */
function makePool() {
  let isAway = false;
  const query = async () => {
    if (isAway) throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
    return { rows: [], rowCount: 0 };
  };
  const client = { query, release() {}, on() {}, off() {} };
  const pool: PostgresPool = { query, connect: async () => client, end: async () => {}, on() {} };
  const setAway = (away: boolean) => {
    isAway = away;
  };
  return { pool, setAway };
}

/** How a call on a server that is away for so long ends, and after how many seconds. */
async function callDuring(awayMs: number, options: { patienceMs?: number }) {
  const { pool, setAway } = makePool();
  const store = postgres(pool, { ...options, migrates: false });
  await store.get('run');
  setAway(true);
  const begun = performance.now();
  const ended = store.get('run').then(
    () => ['answered', performance.now() - begun] as const,
    error => [error.code as string, performance.now() - begun] as const,
  );
  await vi.advanceTimersByTimeAsync(awayMs);
  setAway(false);
  await vi.advanceTimersByTimeAsync(5_000);
  const [outcome, ms] = await ended;
  return { outcome, seconds: Math.round(ms / 1_000) };
}

describe('a call on a PostgreSQL server that was reached and is away', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test('waits for it as long as its patience lasts, and then says that it is away', async () => {
    const short = await callDuring(60_000, { patienceMs: 10_000 });
    expect(short.outcome).toBe('store-unavailable');
    expect(short.seconds).toBeGreaterThanOrEqual(10);
    expect(short.seconds).toBeLessThanOrEqual(11);
    expect((await callDuring(120_000, {})).outcome).toBe('store-unavailable');
  });

  test('is answered after an outage of five minutes if its patience is longer', async () => {
    const { outcome, seconds } = await callDuring(300_000, { patienceMs: 600_000 });
    expect(outcome).toBe('answered');
    expect(seconds).toBeGreaterThanOrEqual(300);
  });
});
