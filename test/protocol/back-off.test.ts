import { expect, test } from 'vitest';
import { backOffMs } from '../../protocol/back-off.ts';

const BOUNDS = { baseMs: 100, maxMs: 1_000 };

test('waits double from the first to the longest, and stay there', () => {
  const waits = [1, 2, 3, 4, 5, 6, 5_000].map(failures => backOffMs(failures, BOUNDS));
  expect(waits).toEqual([100, 200, 400, 800, 1_000, 1_000, 1_000]);
});

test('without a longest wait, they double on', () => {
  expect(backOffMs(11, { baseMs: 100 })).toBe(102_400);
});

test('a random number takes off up to one half, in whole milliseconds', () => {
  expect([0, 0.333, 1].map(random => backOffMs(2, BOUNDS, random))).toEqual([100, 133, 200]);
});
