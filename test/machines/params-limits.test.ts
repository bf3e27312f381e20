import { describe, expect, it } from 'vitest';
import { begin, gated, makeCall, makeTurn } from '../support/machines/builders.ts';

describe('limits that are changed while a run rests', () => {
  it('hold for the whole run: what it has spent counts, and it may go on', () => {
    const run = begin({ limits: { toolCalls: 1 } });
    run.tell(makeTurn({ calls: [gated('a')] }));
    run.tell({ type: 'params.changed', params: { limits: { toolCalls: 2 } } });
    run.tell({ type: 'approval.decided', callId: 'a', digest: 'digest of a', decision: { type: 'reject' } });
    run.tell(makeTurn({ calls: [makeCall('b'), makeCall('c')] }));
    expect(run.context.toolCalls).toBe(2);
    expect(run.context.deniedCalls).toBe(1);
    expect(run.context.calls.map(({ callId, status }) => [callId, status])).toEqual([
      ['b', 'queued'],
      ['c', 'settled'],
    ]);
  });

  it('of turns let a run go on that would have been closed', () => {
    const run = begin({ limits: { turns: 1 } });
    run.tell(makeTurn({ calls: [gated('a')] }));
    run.tell({ type: 'params.changed', params: { limits: { turns: 2 } } });
    run.tell({ type: 'approval.decided', callId: 'a', digest: 'digest of a', decision: { type: 'reject' } });
    expect(run.next?.type).toBe('callModel');
  });
});

it('calls that the client runs do not count against the limit on tool calls', () => {
  const run = begin({ limits: { toolCalls: 1 } });
  const asked = ['a', 'b', 'c'].map(callId => makeCall(callId, { executedBy: 'client' }));
  run.tell(makeTurn({ calls: [...asked, makeCall('d')] }));
  expect(run.context.toolCalls).toBe(1);
  expect(run.context.calls.map(({ status }) => status)).toEqual(['waiting', 'waiting', 'waiting', 'queued']);
});
