import { describe, expect, it } from 'vitest';
import { begin, gated, makeCall, makeTurn } from '../support/machines/builders.ts';

describe('limits that are changed while a run rests', () => {
  it('apply to the whole run, including what it has already spent', () => {
    const run = begin({ limits: { toolCalls: 1 } });
    run.send(makeTurn({ calls: [gated('a')] }));
    run.send({ type: 'params.changed', params: { limits: { toolCalls: 2 } } });
    run.send({ type: 'approval.decided', callId: 'a', digest: 'digest of a', decision: { type: 'reject' } });
    run.send(makeTurn({ calls: [makeCall('b'), makeCall('c')] }));
    expect(run.context.toolCalls).toBe(2);
    expect(run.context.deniedCalls).toBe(1);
    expect(run.context.calls.map(({ callId, status }) => [callId, status])).toEqual([
      ['b', 'queued'],
      ['c', 'settled'],
    ]);
  });

  it('of turns extend a run that would have been closed', () => {
    const run = begin({ limits: { turns: 1 } });
    run.send(makeTurn({ calls: [gated('a')] }));
    run.send({ type: 'params.changed', params: { limits: { turns: 2 } } });
    run.send({ type: 'approval.decided', callId: 'a', digest: 'digest of a', decision: { type: 'reject' } });
    expect(run.next?.type).toBe('callModel');
  });
});

it('client calls do not count against the limit on tool calls', () => {
  const run = begin({ limits: { toolCalls: 1 } });
  const clientCalls = ['a', 'b', 'c'].map(callId => makeCall(callId, { executedBy: 'client' }));
  run.send(makeTurn({ calls: [...clientCalls, makeCall('d')] }));
  expect(run.context.toolCalls).toBe(1);
  expect(run.context.calls.map(({ status }) => status)).toEqual(['waiting', 'waiting', 'waiting', 'queued']);
});
