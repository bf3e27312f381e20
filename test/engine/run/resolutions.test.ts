import { expect, test } from 'vitest';
import { makeDecision } from '../../../engine/log/command.ts';
import { makeCall } from '../../support/machines/builders.ts';

test('a retry of a call in doubt is forced only if the person says so', async () => {
  const call = { ...makeCall('a'), status: 'doubted', attempt: 1 } as const;
  const resolve = async (change: { force?: boolean }) =>
    await makeDecision({ type: 'resolve', callId: 'a', retry: true, ...change }, call, {
      connectTools: async () => new Map(),
      judge: async () => call,
      people: { starters: [], senders: [] },
      now: 0,
    });
  expect(await resolve({})).toEqual({
    type: 'doubt.resolved',
    callId: 'a',
    resolution: { type: 'retry' },
    known: 'asserted',
  });
  expect(await resolve({ force: true })).toMatchObject({ resolution: { type: 'retry', force: true } });
});
