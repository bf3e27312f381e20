import { describe, expect, test } from 'vitest';
import { begin } from '../../stores/conformance/samples.ts';
import { storeChecks } from '../../stores/conformance.ts';
import { memory } from '../../stores/memory.ts';

describe('the memory store', () => {
  for (const { name, run } of storeChecks({ open: async () => memory(), openAgain: async store => store }))
    test(name, run);

  test('two memory stores share nothing', async () => {
    const [one, other] = [memory(), memory()];
    await one.create(begin('a'));
    expect((await other.list()).runs).toEqual([]);
  });
});
