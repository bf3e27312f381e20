import { expect, test } from 'vitest';
import { measureTypes } from '../../bench/types/measure-types.ts';

/** About 1,100 a tool; a type that compares all tools with each other takes many times as many. */
const MOST_INSTANTIATIONS = 50_000;

test('29 more tools cost an agent few instantiations of types', () => {
  const added = measureTypes(30).instantiations - measureTypes(1).instantiations;
  expect(added).toBeGreaterThan(1_000);
  expect(added).toBeLessThan(MOST_INSTANTIATIONS);
});
