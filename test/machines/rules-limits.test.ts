import { describe, expect, it } from 'vitest';
import type { Usage } from '../../protocol/turn.ts';
import {
  answering,
  approving,
  begin,
  type ChartRun,
  calling,
  failing,
  gated,
  makeCall,
  makeTurn,
  START,
  saying,
  settling,
  starting,
} from '../support/machines/builders.ts';

const usage = (inputTokens: number, outputTokens: number, change: Partial<Usage> = {}): Usage => ({
  inputTokens,
  outputTokens,
  cachedInputTokens: null,
  cacheWriteTokens: null,
  reasoningTokens: null,
  ...change,
});

/** Plays one round with one call that needs no approval. */
function playRound(run: ChartRun, callId: string, change: Parameters<typeof makeTurn>[0] = {}): ChartRun {
  return run.send(makeTurn({ calls: [makeCall(callId)], ...change })).finish(callId);
}

describe('rule 8: limits', () => {
  it('turns: one closing call with tools off; its calls get error results, and the reason is the limit', () => {
    const run = playRound(begin({ limits: { turns: 1 } }), 'a');
    expect(run.next).toEqual({ type: 'streamFinal', limit: 'turns', why: 'limit turns: 1 of 1' });
    expect(run.place).toBe('turn.finalStreaming');
    run.send(makeTurn({ text: 'as far as I got', calls: [makeCall('b')] }));
    expect(run.place).toBe('finished');
    expect(run.next).toMatchObject({ type: 'finish', reason: 'turns' });
    expect(run.results).toMatchObject([{ callId: 'a' }, { callId: 'b', isError: true }]);
    expect(run.context.answer).toEqual({ text: 'as far as I got' });
  });

  it('stop: the run finishes with the reason, without another call', () => {
    const run = playRound(begin({ limits: { turns: 1 }, onLimit: 'stop' }), 'a');
    expect(run.place).toBe('finished');
    expect(run.next).toMatchObject({ type: 'finish', reason: 'turns' });
    expect(run.countStarts('modelTurn')).toBe(1);
  });

  it('an answer that uses up the limit is complete', () => {
    const run = begin({ limits: { turns: 1 } }).send(answering('done'));
    expect(run.next).not.toHaveProperty('reason');
  });

  it('the closing call is the only overrun: a message during it stays unread', () => {
    const run = playRound(begin({ limits: { turns: 1 } }), 'a').send(saying('more'), answering('sorry'));
    expect(run.place).toBe('finished');
    expect(run.context.turns).toBe(2);
    expect(run.context.inbox).toHaveLength(1);
  });

  it('a failed closing call is retried as a closing call', () => {
    const run = playRound(begin({ limits: { turns: 1 } }), 'a').send(failing());
    expect(run.next).toMatchObject({ type: 'streamFinal', limit: 'turns' });
    expect(run.turn).toMatchObject({ final: true, attempt: 2 });
    expect(run.send(answering('sorry')).next).toMatchObject({ reason: 'turns' });
  });

  it('toolCalls: calls beyond the limit get error results and do not run; then the run closes', () => {
    const run = begin({ limits: { toolCalls: 2 } });
    run.send(calling(makeCall('a'), gated('b'), makeCall('c'), gated('d')));
    expect(run.open).toEqual({ a: 'queued', b: 'gated' });
    run.finish('a').send(approving('b')).finish('b');
    expect(run.next).toMatchObject({ type: 'streamFinal', limit: 'toolCalls' });
    const refused = { isError: true, output: "Not run: the run's limit of 2 tool calls is reached." };
    expect(run.results.slice(2)).toMatchObject([refused, refused]);
    expect(run.context).toMatchObject({ toolCalls: 2, deniedCalls: 2 });
  });

  it('toolCalls: a run that makes exactly the allowed number of calls continues', () => {
    const run = playRound(begin({ limits: { toolCalls: 1 } }), 'a');
    expect(run.next.type).toBe('callModel');
    expect(run.send(answering('done')).next).not.toHaveProperty('reason');
  });

  it('toolCalls: 0 allows no call', () => {
    const run = begin({ limits: { toolCalls: 0 } }).send(calling(makeCall('a')));
    expect(run.next).toMatchObject({ type: 'streamFinal', limit: 'toolCalls' });
    expect(run.countStarts('toolBatch')).toBe(0);
  });

  it('toolCalls: retries, doubts and calls that cannot run do not count', () => {
    const run = begin({ limits: { toolCalls: 1 } });
    run.send(calling(makeCall('bad', { error: 'no such tool' }), makeCall('a', { sideEffect: 'once' })));
    run.send(starting('a'), { type: 'tool.doubted', callId: 'a', reason: 'timed out' });
    run.send({ type: 'doubt.resolved', callId: 'a', resolution: { type: 'retry' } }).finish('a');
    expect(run.context).toMatchObject({ toolCalls: 1, deniedCalls: 0 });
    expect(run.next.type).toBe('callModel');
  });

  it('tokens: counts input and output of all turns', () => {
    const run = playRound(begin({ limits: { tokens: 100 } }), 'a', { usage: usage(40, 9) });
    expect(run.next.type).toBe('callModel');
    playRound(run, 'b', { usage: usage(50, 1) });
    expect(run.next).toMatchObject({ type: 'streamFinal', limit: 'tokens', why: 'limit tokens: 100 of 100' });
  });

  it('tokens: the sum of all turns; a turn without usage keeps the count', () => {
    const run = playRound(begin({ limits: { tokens: 50 } }), 'a', { usage: usage(40, 10) });
    expect(run.next).toMatchObject({ limit: 'tokens' });
    const silent = playRound(playRound(begin(), 'a'), 'b', { usage: usage(40, 10) });
    expect(silent.context).toMatchObject({ usage: usage(40, 10), usageUnknown: true });
  });

  it.each([{ tokens: 50 }, { cost: 3 }])(
    '%j: a turn without usage ends the run, without a closing call',
    limits => {
      const run = playRound(begin({ limits }), 'a');
      expect(run.place).toBe('finished');
      expect(run.next).toMatchObject({ type: 'finish', reason: 'usage-unknown' });
      expect(run.results).toMatchObject([{ callId: 'a', isError: false }]);
      expect(run.countStarts('modelTurn')).toBe(1);
      const answered = begin({ limits }).send(answering('done'));
      expect(answered.next).toMatchObject({ type: 'finish', reason: 'usage-unknown' });
    },
  );

  it('tokens: a failed turn is retried, because it is not known to have used any', () => {
    const run = begin({ limits: { tokens: 50 } }).send(failing());
    expect(run.next).toMatchObject({ type: 'callModel' });
    expect(run.context.usageUnknown).toBe(false);
  });

  it('cost: uses the prices of the model in use, with cached tokens at their own price', () => {
    const prices = { first: { input: 2, output: 10, cachedInput: 1 } };
    const run = begin({ limits: { cost: 3 }, prices });
    playRound(run, 'a', { usage: usage(1_000_000, 100_000, { cachedInputTokens: 400_000 }) });
    expect(run.context.cost).toBeCloseTo(0.6 * 2 + 0.4 * 1 + 0.1 * 10);
    expect(run.next.type).toBe('callModel');
    playRound(run, 'b', { usage: usage(500_000, 0) });
    expect(run.next).toMatchObject({ type: 'streamFinal', limit: 'cost' });
  });

  it('activeMs: counts model calls and tools, not rests', () => {
    const run = begin({ limits: { activeMs: 1_000 } });
    run.send({ ...calling(gated('a')), startedAt: START, at: START + 300 });
    run.send({ ...approving('a'), at: START + 90_000 });
    run.send({ ...starting('a'), at: START + 90_100 }, { ...settling('a'), at: START + 90_700 });
    expect(run.context.activeMs).toBe(900);
    expect(run.next.type).toBe('callModel');
    run.send({ ...calling(gated('b')), startedAt: START + 90_800, at: START + 90_900 });
    run.send({ ...approving('b'), at: START + 99_000 }, { ...starting('b'), at: START + 99_000 });
    run.send({ ...settling('b'), at: START + 99_000 });
    expect(run.next).toMatchObject({ type: 'streamFinal', limit: 'activeMs' });
  });

  it('activeMs: counts parallel calls of one batch once', () => {
    const run = begin({ limits: { activeMs: 10_000 } });
    run.send({ ...calling(makeCall('a'), makeCall('b')), at: START });
    run.send({ ...starting('a'), at: START + 100 }, { ...starting('b'), at: START + 150 });
    run.send({ ...settling('b'), at: START + 300 }, { ...settling('a'), at: START + 400 });
    expect(run.context.activeMs).toBe(300);
  });

  it('activeMs: does not count the time of a dead process', () => {
    const run = begin({ limits: { activeMs: 10_000 } }).send({ ...calling(makeCall('a')), at: START });
    run.send({ ...starting('a'), at: START + 100 });
    run.send({ type: 'tool.interrupted', callId: 'a', at: START + 900_000 });
    run.send({ ...starting('a', 2), at: START + 900_100 }, { ...settling('a'), at: START + 900_150 });
    expect(run.context.activeMs).toBe(50);
  });

  it('activeMs: counts failed attempts, and the next attempt is the closing call', () => {
    const slow = { ...failing(), startedAt: START, at: START + 1_500 };
    const run = begin({ limits: { activeMs: 1_000 } }).send(slow);
    expect(run.next).toMatchObject({ type: 'streamFinal', limit: 'activeMs' });
    expect(run.turn).toMatchObject({ number: 1, attempt: 2, final: true });
    run.send(failing(), answering('sorry'));
    expect(run.place).toBe('finished');
    expect(run.next).toMatchObject({ reason: 'activeMs' });
    const stopping = begin({ limits: { activeMs: 1_000 }, onLimit: 'stop' }).send(slow);
    expect(stopping.place).toBe('finished');
    expect(stopping.next).toMatchObject({ type: 'finish', reason: 'activeMs' });
  });

  it('repeatedFailures: counts one tool with one input, and a success resets the count', () => {
    const failOnce = (run: ChartRun, callId: string, isError = true) =>
      run.send(
        calling(makeCall(callId, { digest: 'same' })),
        starting(callId),
        settling(callId, { output: 'x', isError: isError }),
      );
    const run = begin({ limits: { repeatedFailures: 2 } });
    failOnce(run, 'a');
    failOnce(run, 'b', false);
    failOnce(run, 'c');
    expect(run.next.type).toBe('callModel');
    failOnce(run, 'd');
    expect(run.next).toMatchObject({ type: 'streamFinal', limit: 'repeatedFailures' });
  });

  it('repeatedFailures: counts each input separately, including calls that could not run', () => {
    const run = begin({ limits: { repeatedFailures: 2 } });
    run.send(calling(makeCall('a', { error: 'bad' }), makeCall('b', { error: 'bad' })));
    expect(run.next.type).toBe('callModel');
    run.send(calling(makeCall('c', { error: 'bad', digest: 'digest of a' })));
    expect(run.next).toMatchObject({ limit: 'repeatedFailures' });
  });

  it('when several limits are reached, the first in the list is the reason', () => {
    const run = begin({ limits: { turns: 1, tokens: 1 } }).send(
      makeTurn({ calls: [gated('a')], usage: usage(5, 5) }),
    );
    run.send(approving('a')).finish('a');
    expect(run.next).toMatchObject({ limit: 'turns' });
  });

  it('limits count across pauses', () => {
    const run = begin({ limits: { turns: 1 } }).send({ type: 'pause.requested' }, calling(makeCall('a')));
    run.send({ type: 'run.unpaused' }).finish('a');
    expect(run.next).toMatchObject({ type: 'streamFinal', limit: 'turns' });
  });
});
