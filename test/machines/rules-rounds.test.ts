import { describe, expect, it } from 'vitest';
import {
  answering,
  approving,
  begin,
  calling,
  forClient,
  gated,
  makeCall,
  makeTurn,
  rejecting,
  saying,
  settling,
  starting,
  type UntimedEvent,
} from '../support/machines/builders.ts';

const receiving = (
  callId: string,
  change: { isError?: boolean; childRunId?: string } = {},
): UntimedEvent => ({
  type: 'result.received',
  callId,
  output: `result of ${callId}`,
  isError: false,
  ...change,
});
const doubting = (callId: string): UntimedEvent => ({ type: 'tool.doubted', callId, reason: 'it timed out' });
const interrupting = (callId: string): UntimedEvent => ({ type: 'tool.interrupted', callId });

describe('rule 6: a mixed round', () => {
  const mixed = () =>
    begin().send(calling(gated('pay'), makeCall('look'), forClient('ask'), gated('pay2'), makeCall('see')));

  it('runs the calls without approval first, then rests with all gated and client calls open', () => {
    const run = mixed();
    expect(run.next).toMatchObject({ type: 'executeTools', calls: ['look', 'see'] });
    run.finish('see', 'look');
    expect(run.place).toBe('resting.awaitingApproval');
    expect(run.open).toEqual({ pay: 'gated', ask: 'waiting', pay2: 'gated' });
  });

  it('accepts decisions and results in any order, also while the batch runs', () => {
    const run = mixed().send(starting('look'), rejecting('pay2'), receiving('ask'), starting('see'));
    expect(run.place).toBe('executingTools');
    expect(run.open).toEqual({ pay: 'gated', look: 'running', see: 'running' });
    run.send(settling('see'), settling('look'));
    expect(run.place).toBe('resting.awaitingApproval');
    expect(run.open).toEqual({ pay: 'gated' });
  });

  it('starts an approved call once no batch is running', () => {
    const run = mixed().send(approving('pay'));
    expect(run.countStarts('toolBatch')).toBe(1);
    expect(run.open).toMatchObject({ pay: 'ready', look: 'queued' });
    expect(run.offer(starting('pay')).handled).toBe(false);
    run.finish('look', 'see');
    expect(run.countStarts('toolBatch')).toBe(2);
    expect(run.next).toMatchObject({ type: 'executeTools', calls: ['pay'] });
    run.finish('pay');
    expect(run.place).toBe('resting.awaitingApproval');
  });

  it('results enter the transcript in call order once all are there, whatever their order of arrival', () => {
    const run = mixed().finish('see', 'look').send(rejecting('pay2'), receiving('ask'));
    expect(run.results).toEqual([]);
    expect(run.countStarts('modelTurn')).toBe(1);
    run.send(approving('pay')).finish('pay');
    expect(run.results.map(({ callId }) => callId)).toEqual(['pay', 'look', 'ask', 'pay2', 'see']);
    expect(run.place).toBe('turn.planning');
    expect(run.context.calls).toEqual([]);
  });

  it('a second decision, or one with another digest, changes nothing', () => {
    const run = mixed().finish('look', 'see');
    expect(run.offer(approving('pay', { digest: 'digest of pay2' })).handled).toBe(false);
    run.send(approving('pay'));
    expect(run.offer(approving('pay')).handled).toBe(false);
    expect(run.offer(rejecting('pay')).handled).toBe(false);
    expect(run.open).toMatchObject({ pay: 'queued' });
  });

  it('an approved client call waits for the client', () => {
    const run = begin().send(calling(forClient('a', { gate: true })));
    expect(run.place).toBe('resting.awaitingApproval');
    expect(run.offer(receiving('a')).handled).toBe(false);
    expect(run.send(approving('a')).place).toBe('resting.awaitingResults');
    expect(run.send(receiving('a')).results).toMatchObject([{ output: 'result of a' }]);
  });

  it('an edited input is the one that runs, and the edit is recorded', () => {
    const run = begin().send(calling(gated('a', { input: { cents: 900 } })), {
      ...approving('a'),
      type: 'approval.decided',
      callId: 'a',
      digest: 'digest of a',
      decision: { type: 'approve', input: { cents: 100 }, editDigest: 'digest of the edit' },
    });
    const edited = { input: { cents: 100 }, digest: 'digest of the edit', edited: true, status: 'queued' };
    expect(run.context.calls).toMatchObject([edited]);
    expect(run.context.edits).toEqual([{ callId: 'a', input: { cents: 100 } }]);
  });

  it('an answer by a person is the result of the call, which never runs', () => {
    const decision = { type: 'answer', output: 'I paid it by hand' } as const;
    const run = begin().send(calling(gated('a')), {
      type: 'approval.decided',
      callId: 'a',
      digest: 'digest of a',
      decision,
    });
    expect(run.results).toMatchObject([{ output: 'I paid it by hand', isError: false }]);
    expect(run.countStarts('toolBatch')).toBe(0);
  });

  it('a sticky answer does not apply to later calls', () => {
    const run = begin().send(calling(gated('a')), {
      type: 'approval.decided',
      callId: 'a',
      digest: 'digest of a',
      decision: { type: 'answer', output: 'done' },
      sticky: true,
    });
    expect(run.send(calling(gated('b'))).open).toEqual({ b: 'gated' });
  });

  it('a sticky approval is of the tool as its server defined it, and a sticky rejection of any definition', () => {
    const defined = (callId: string, toolDigest: string) => gated(callId, { toolDigest });
    const approved = begin()
      .send(calling(defined('a', 'one')), approving('a', { sticky: true }))
      .finish('a');
    expect(approved.send(calling(defined('b', 'one'))).finish('b').open).toEqual({});
    expect(approved.send(calling(defined('c', 'other'))).open).toEqual({ c: 'gated' });
    approved.send(approving('c', { sticky: true })).finish('c');
    expect(approved.send(calling(defined('d', 'other'))).open).toEqual({ d: 'queued' });
    const rejected = begin().send(calling(defined('a', 'one')), rejecting('a', { sticky: true }));
    rejected.send(calling(defined('b', 'other')));
    expect(rejected.results.slice(1)).toMatchObject([{ callId: 'b', isError: true }]);
  });

  it('a sticky approval applies to later calls of the tool, and so does a sticky rejection with its reason', () => {
    const approved = begin()
      .send(calling(gated('a')), approving('a', { sticky: true }))
      .finish('a');
    expect(approved.send(calling(gated('b'))).open).toEqual({ b: 'queued' });
    const rejected = begin().send(calling(gated('a')), rejecting('a', { sticky: true, reason: 'not today' }));
    rejected.send(calling(gated('b'), gated('c', { name: 'delete' })));
    expect(rejected.open).toEqual({ c: 'gated' });
    rejected.send(rejecting('c'));
    expect(rejected.results.slice(1)).toMatchObject([
      { callId: 'b', output: 'Not run: the call was rejected: not today', isError: true },
      { callId: 'c', output: 'Not run: the call was rejected.' },
    ]);
  });

  it('an expired approval is an error result; a decision after it is not accepted', () => {
    const run = begin().send(calling(gated('a', { expiresAt: 1_000_500 }), gated('b')));
    const timer = { type: 'start', service: 'timer', input: { until: 1_000_500 } };
    expect(run.effects.at(-1)).toMatchObject(timer);
    expect(run.offer({ ...approving('a'), at: 1_000_500 }).handled).toBe(false);
    run.send({ type: 'timer.fired', at: 1_000_500 });
    expect(run.open).toEqual({ b: 'gated' });
    expect(run.context.timer).toBe(null);
    run.send(approving('b')).finish('b');
    expect(run.results[0]).toMatchObject({ isError: true, output: expect.stringContaining('expired') });
  });

  it('a timer that fires too early expires nothing and is set again', () => {
    const run = begin().send(calling(gated('a', { expiresAt: 1_000_500 })), {
      type: 'timer.fired',
      at: 1_000_400,
    });
    expect(run.open).toEqual({ a: 'gated' });
    expect(run.effects.slice(-3).map(({ type }) => type)).toEqual(['stop', 'publish', 'start']);
  });
});

describe('rule 7: failures are results', () => {
  it('a throwing tool produces an error result for the model, and the run continues', () => {
    const run = begin().send(
      calling(makeCall('a')),
      starting('a'),
      settling('a', { output: 'no such order', isError: true }),
    );
    expect(run.results).toMatchObject([{ output: 'no such order', isError: true }]);
    expect(run.place).toBe('turn.planning');
  });

  it.each(['none', 'idempotent'] as const)('an interrupted %s call runs again with its key', sideEffect => {
    const run = begin().send(calling(makeCall('a', { sideEffect })), starting('a'), interrupting('a'));
    expect(run.context.calls).toMatchObject([{ status: 'queued', key: 'key of a', attempt: 1 }]);
    expect(run.place).toBe('executingTools');
    run.send(starting('a', 2), settling('a'));
    expect(run.place).toBe('turn.planning');
  });

  it('an interrupted once call with a reconcile function is reconciled in the same batch', () => {
    const call = makeCall('a', { sideEffect: 'once', reconcilable: true });
    const run = begin().send(calling(call), starting('a'), interrupting('a'));
    expect(run.open).toEqual({ a: 'reconciling' });
    expect(run.countStarts('toolBatch')).toBe(1);
    expect(run.send(settling('a', { output: 'it had happened' })).results).toMatchObject([
      { output: 'it had happened' },
    ]);
  });

  it('an interrupted once call without a reconcile function is in doubt, without a result', () => {
    const run = begin().send(
      calling(makeCall('a', { sideEffect: 'once' })),
      starting('a'),
      interrupting('a'),
    );
    expect(run.place).toBe('resting.inDoubt');
    expect(run.results).toEqual([]);
  });

  it.each([
    ['retry', { type: 'retry' }, []],
    ['happened', { type: 'happened', output: 'paid' }, [{ output: 'paid', isError: false }]],
    ['failed', { type: 'failed', reason: 'not paid' }, [{ output: 'not paid', isError: true }]],
  ] as const)('a doubt is resolved by a person: %s', (_name, resolution, results) => {
    const run = begin().send(calling(gated('a')), approving('a'), starting('a'), doubting('a'));
    expect(run.next).toMatchObject({ type: 'resolveDoubt', calls: ['a'] });
    run.send({ type: 'doubt.resolved', callId: 'a', resolution });
    expect(run.results).toMatchObject(results);
    expect(run.place).toBe(resolution.type === 'retry' ? 'executingTools' : 'turn.planning');
    expect(run.offer({ type: 'doubt.resolved', callId: 'a', resolution }).handled).toBe(false);
  });

  it('doubts are resolved before approvals are asked for', () => {
    const run = begin().send(calling(gated('a'), makeCall('b', { sideEffect: 'once' })));
    run.send(starting('b'), doubting('b'));
    expect(run.place).toBe('resting.inDoubt');
    expect(run.open).toEqual({ a: 'gated', b: 'doubted' });
  });

  it('reports of a call that is not running, or of another generation, are ignored', () => {
    const run = begin().send(calling(makeCall('a'), makeCall('b')));
    expect(run.offer(settling('a')).handled).toBe(false);
    run.finish('a');
    expect(run.offer(settling('a', { output: 'again' })).handled).toBe(false);
    expect(run.offer({ ...starting('b'), generation: run.context.generation - 1 }).handled).toBe(false);
  });
});

describe('rule 13: sub-agents', () => {
  const suspending: UntimedEvent = { type: 'tool.suspended', callId: 'a', childRunId: 'child' };
  const ended = receiving('a', { childRunId: 'child' });

  it('a call takes its result from the run that it waits for, and from no other run and no client', () => {
    const run = begin().send(calling(makeCall('a')), starting('a'), suspending);
    expect(run.offer(receiving('a')).handled).toBe(false);
    expect(run.offer(receiving('a', { childRunId: 'another' })).handled).toBe(false);
    expect(run.offer(ended).handled).toBe(true);
    const client = begin().send(calling(forClient('ask')));
    expect(client.offer(receiving('ask', { childRunId: 'child' })).handled).toBe(false);
  });

  it('a suspended call lets the batch end, and the run rests with the call naming the child run', () => {
    const run = begin().send(calling(makeCall('a'), makeCall('b')), starting('a'), suspending);
    expect(run.place).toBe('executingTools');
    run.finish('b');
    expect(run.place).toBe('resting.awaitingResults');
    expect(run.context.calls[0]).toMatchObject({ status: 'waiting', childRunId: 'child' });
  });

  it('the end of the child is the result of the call, accepted at rest and during a batch', () => {
    const resting = begin().send(calling(makeCall('a')), starting('a'), suspending, ended);
    expect(resting.results).toMatchObject([{ callId: 'a', output: 'result of a', isError: false }]);
    expect(resting.place).toBe('turn.planning');
    const busy = begin().send(calling(makeCall('a'), makeCall('b')), starting('a'), suspending);
    busy.send(receiving('a', { childRunId: 'child', isError: true })).finish('b');
    expect(busy.results).toMatchObject([{ callId: 'a', isError: true }, { callId: 'b' }]);
  });

  it('a cancelled parent keeps the id of the child run, which has to be cancelled too', () => {
    const run = begin().send(calling(makeCall('a')), starting('a'), suspending);
    run.send({ type: 'run.cancelled', unsettled: ['a'] });
    expect(run.place).toBe('cancelled');
    expect(run.context.calls).toMatchObject([{ status: 'waiting', childRunId: 'child' }]);
  });

  it('a message does not supersede the call of a sub-agent', () => {
    const run = begin().send(calling(makeCall('a')), starting('a'), suspending, saying('hurry'));
    expect(run.open).toEqual({ a: 'waiting' });
    expect(run.send(ended, answering('done')).texts).toEqual(['begin', 'hurry', 'done']);
  });
});

describe('results accumulate over rounds', () => {
  it('every round appends its results after its calls', () => {
    const run = begin()
      .send(calling(makeCall('a')))
      .finish('a');
    run.send(makeTurn({ text: 'and', calls: [makeCall('b')] })).finish('b');
    const kinds = run.context.transcript.map(({ type }) => type);
    expect(kinds).toEqual(['message', 'tool_call', 'tool_result', 'message', 'tool_call', 'tool_result']);
  });
});
