import fc from 'fast-check';
import { expect, it } from 'vitest';
import { calling, stamp } from '../../explore/make-events.ts';
import { findCall } from '../../machines/calls.ts';
import { initial, next } from '../../machines/step.ts';
import { makeCall, makeConfig, makeStarted } from '../support/machines/builders.ts';
import { randomCases } from '../support/sample.ts';

it('a call is found in every list of calls of a turn, whatever the lists before had in its place', () => {
  const { state } = initial(makeStarted(makeConfig()));
  const { context } = next(state, stamp(state.context, calling(makeCall('call_0')))).state;
  expect(context.lastTurn).not.toBeNull();
  const ids = fc.uniqueArray(fc.integer({ min: 0, max: 20 }), { maxLength: 20 });
  const compare = (lists: number[][]) => {
    for (const list of lists) {
      const calls = list.map(id => ({ ...makeCall(`call_${id}`), attempt: 0, status: 'ready' as const }));
      for (let id = 0; id <= 20; id += 1) {
        const callId = `call_${id}`;
        expect(findCall({ ...context, calls }, callId)).toBe(calls.find(call => call.callId === callId));
      }
    }
  };
  fc.assert(fc.property(fc.array(ids, { maxLength: 4 }), compare), { numRuns: randomCases(50) });
});
