import fc from 'fast-check';
import { expect, test } from 'vitest';
import { describeTime } from '../../machines/ledger.ts';

test('the time of a deed is written as in ISO 8601', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 4_102_444_800_000 }), at => {
      expect(describeTime(at)).toBe(`${new Date(at).toISOString().slice(0, 16).replace('T', ' ')} UTC`);
    }),
  );
});
