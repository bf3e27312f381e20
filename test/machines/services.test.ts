import { expect, test } from 'vitest';
import { begin, calling, failing, makeCall, starting } from '../support/machines/builders.ts';

test('a run that ends stops the service it has started', () => {
  for (const run of [begin(), begin().send(calling(makeCall('a')), starting('a'))]) {
    const started = run.effects.findLast(effect => effect.type === 'start');
    const { effects } = run.offer({
      type: 'run.cancelled',
      unsettled: run.context.calls.map(call => call.callId),
    });
    expect(run.place).toBe('cancelled');
    expect(effects.filter(({ type }) => type === 'stop')).toEqual([{ type: 'stop', id: started?.id }]);
  }
});

test('a back-off is one generation after the turn that failed', () => {
  const run = begin();
  const { generation } = run.context;
  run.send(failing({ retryAt: run.context.now + 1_000 }));
  expect(run.place).toBe('backingOff');
  expect(run.context.generation).toBe(generation + 1);
});
