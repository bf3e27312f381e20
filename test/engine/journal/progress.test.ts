import { expect, test } from 'vitest';
import { progressOf } from '../../../engine/journal/load-run.ts';
import { begin, calling, forClient, makeCall } from '../../support/machines/builders.ts';

test('lists show what a resting run waits for, and nothing for a paused run without open calls', () => {
  const paused = begin().send({ type: 'pause.requested' }, calling(forClient('a')));
  expect(progressOf(paused.state).waitsFor).toEqual([{ type: 'result', callId: 'a', name: 'ask' }]);
  const held = begin()
    .send(calling(makeCall('b')), { type: 'pause.requested' })
    .finish('b');
  expect(held.place).toBe('resting.paused');
  expect(progressOf(held.state)).not.toHaveProperty('waitsFor');
});
