import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { WriteQueue } from '../../stores/sqlite/connection.ts';

beforeEach(() => {
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'clearImmediate', 'performance'],
  });
});
afterEach(() => {
  vi.useRealTimers();
});

test('a write that finds the store locked rejects when its timeout is over', async () => {
  let attempts = 0;
  const queue = new WriteQueue('runs.db', 100, writes => {
    attempts += 1;
    return writes;
  });
  const begun = performance.now();
  const rejected = queue.add(() => 'written').catch(error => [error.code, performance.now() - begun]);
  await vi.advanceTimersByTimeAsync(200);
  expect(await rejected).toEqual(['store-locked', 100]);
  expect(attempts).toBeLessThan(10);
});

test('a queue that is closed rejects what the locked store did not take, and tries no more', async () => {
  let attempts = 0;
  const queue = new WriteQueue('runs.db', 100, writes => {
    attempts += 1;
    return writes;
  });
  const rejected = queue.add(() => 'written').catch(error => error.code);
  queue.close();
  queue.close();
  expect(await rejected).toBe('store-unavailable');
  await vi.advanceTimersByTimeAsync(200);
  expect(attempts).toBe(1);
});
