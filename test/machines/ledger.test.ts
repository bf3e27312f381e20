import fc from 'fast-check';
import { expect, test } from 'vitest';
import { closeLedger, describeTime } from '../../machines/ledger.ts';
import { begin, calling, makeCall, starting } from '../support/machines/builders.ts';

test('the time of a deed is written as in ISO 8601', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 4_102_444_800_000 }), at => {
      expect(describeTime(at)).toBe(`${new Date(at).toISOString().slice(0, 16).replace('T', ' ')} UTC`);
    }),
  );
});

test('a call in doubt that was to run once more may have been done when its run ended', () => {
  const doubted = begin().send(calling(makeCall('pay', { sideEffect: 'once' })), starting('pay'), {
    type: 'tool.doubted',
    callId: 'pay',
    reason: 'it timed out',
  });
  const retried = doubted.send({ type: 'doubt.resolved', callId: 'pay', resolution: { type: 'retry' } });
  expect(retried.open).toEqual({ pay: 'queued' });
  expect(closeLedger(retried.context).fresh).toMatchObject([{ callId: 'pay', outcome: 'unknown' }]);
});
