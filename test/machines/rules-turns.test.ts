import { describe, expect, it } from 'vitest';
import type { FinishReason } from '../../protocol/turn.ts';
import {
  answering,
  begin,
  ChartRun,
  calling,
  failing,
  forClient,
  gated,
  makeCall,
  makeConfig,
  makeStarted,
  makeTurn,
  saying,
  type UntimedEvent,
} from '../support/machines/builders.ts';

describe('rule 1: one journal for both modes', () => {
  const script: UntimedEvent[] = [
    { type: 'text.started' },
    { type: 'calls.started' },
    calling(gated('a')),
    saying('never mind'),
    { type: 'text.started' },
    answering('fine'),
  ];

  it('the same events lead a streaming and a non-streaming run through the same states', () => {
    const started = makeStarted(makeConfig());
    const streaming = new ChartRun(started);
    const unstreamed = new ChartRun({ ...started, stream: false });
    for (const event of script) {
      streaming.send(event);
      unstreamed.send(event);
      expect(unstreamed.state.value).toEqual(streaming.state.value);
      expect({ ...unstreamed.context, stream: true }).toEqual(streaming.context);
    }
    expect(streaming.place).toBe('finished');
    expect(unstreamed.effects).toEqual(streaming.effects);
  });

  it('text.started leads to finalStreaming, and calls.started back to planning, within one model call', () => {
    const run = begin();
    expect(run.place).toBe('turn.planning');
    expect(run.send({ type: 'text.started' }).place).toBe('turn.finalStreaming');
    expect(run.send({ type: 'calls.started' }).place).toBe('turn.planning');
    expect(run.countStarts('modelTurn')).toBe(1);
    expect(run.effects.filter(({ type }) => type === 'stop')).toEqual([]);
  });
});

describe('rule 2: the final answer', () => {
  it.each(['live', 'held'] as const)('%s: one model call, and its text without calls is the answer', mode => {
    const run = begin({ finalAnswer: mode }).send(answering('42'));
    expect(run.place).toBe('finished');
    expect(run.context.answer).toEqual({ text: '42' });
    expect(run.countStarts('modelTurn')).toBe(1);
    expect(run.texts).toEqual(['begin', '42']);
  });

  it('separate: a turn without calls is a draft outside the transcript, and one more call answers', () => {
    const run = begin({ finalAnswer: 'separate' }).send(answering('a draft'));
    expect(run.place).toBe('turn.finalStreaming');
    expect(run.turn).toMatchObject({ number: 2, final: true });
    expect(run.texts).toEqual(['begin']);
    run.send(answering('the answer'));
    expect(run.place).toBe('finished');
    expect(run.texts).toEqual(['begin', 'the answer']);
    expect(run.context.answer).toEqual({ text: 'the answer' });
    expect(run.countStarts('modelTurn')).toBe(2);
  });

  it('separate: a turn with calls is not a draft, and planning continues after their results', () => {
    const run = begin({ finalAnswer: 'separate' })
      .send(calling(makeCall('a')))
      .finish('a');
    expect(run.place).toBe('turn.planning');
    expect(run.turn.final).toBe(false);
  });

  it('separate: a message during the draft leads to another planning turn', () => {
    const run = begin({ finalAnswer: 'separate' }).send(saying('wait'), answering('a draft'));
    expect(run.place).toBe('turn.planning');
    expect(run.turn).toMatchObject({ number: 2, final: false });
  });

  it('separate: an answer beyond the limit is the closing call, and no turn follows it', () => {
    const run = begin({ finalAnswer: 'separate', limits: { turns: 1 } }).send(answering('a draft'));
    expect(run.next).toMatchObject({ type: 'streamFinal', limit: 'turns' });
    run.send(saying('one more thing'), answering('the answer'));
    expect(run.place).toBe('finished');
    expect(run.context.turns).toBe(2);
    expect(run.context.inbox).toHaveLength(1);
  });

  it('separate: with onLimit stop, no answer is requested beyond the limit', () => {
    const run = begin({ finalAnswer: 'separate', onLimit: 'stop', limits: { turns: 1 } });
    run.send(answering('a draft'));
    expect(run.place).toBe('finished');
    expect(run.next).toMatchObject({ type: 'finish', reason: 'turns' });
    expect(run.countStarts('modelTurn')).toBe(1);
  });

  it('calls of a turn with tools off get error results and do not run', () => {
    const run = begin({ finalAnswer: 'separate' }).send(
      answering('a draft'),
      calling(makeCall('a'), gated('b')),
    );
    expect(run.place).toBe('finished');
    expect(run.countStarts('toolBatch')).toBe(0);
    expect(run.results).toMatchObject([
      { callId: 'a', isError: true, output: 'Not run: tools are off for the final answer.' },
      { callId: 'b', isError: true },
    ]);
  });
});

describe('rule 3: forced tool choice', () => {
  it('the first planning turn ends with a completed turn, not with a failed attempt', () => {
    const models = ['first', 'second'].map(model => ({ provider: 'test', model }));
    const run = begin({ toolChoice: 'required', models, attempts: 1 }).send(failing());
    expect(run.context).toMatchObject({ turns: 0, turn: { number: 1, model: 1, final: false } });
    run.send(calling(makeCall('a'))).finish('a');
    expect(run.context).toMatchObject({ turns: 1, turn: { number: 2 }, config: { toolChoice: 'required' } });
  });
});

describe('continuations', () => {
  const continuation = { provider: 'test', model: 'first', instructions: '', token: 'response-1' };

  it('the continuation is that of the latest turn, or none', () => {
    const run = begin()
      .send(makeTurn({ calls: [makeCall('a')], continuation }))
      .finish('a');
    expect(run.context.continuation).toEqual(continuation);
    run.send(calling(makeCall('b')));
    expect(run.context.continuation).toBe(null);
  });

  it('a draft is not in the transcript and leaves the continuation unchanged', () => {
    const run = begin({ finalAnswer: 'separate' }).send(makeTurn({ calls: [makeCall('a')], continuation }));
    run.finish('a').send(answering('draft', { continuation: { ...continuation, token: 'response-2' } }));
    expect(run.place).toBe('turn.finalStreaming');
    expect(run.context.continuation).toEqual(continuation);
  });
});

describe('rule 4: calls arrive validated', () => {
  it('an invalid call never runs, and its error is its result', () => {
    const run = begin().send(calling(makeCall('a', { error: 'there is no tool "a"' }), makeCall('b')));
    expect(run.next).toMatchObject({ type: 'executeTools', calls: ['b'] });
    run.finish('b');
    expect(run.results).toMatchObject([
      { callId: 'a', output: 'there is no tool "a"', isError: true },
      { callId: 'b', output: 'output of b', isError: false },
    ]);
  });

  it('an invalid call is not offered for approval, even if it is gated', () => {
    const run = begin().send(calling(gated('a', { error: 'bad arguments' })));
    expect(run.place).toBe('turn.planning');
    expect(run.results).toMatchObject([{ callId: 'a', output: 'bad arguments' }]);
  });

  it('the call keeps the properties from the turn service', () => {
    const call = gated('a', { reason: 'more than 100', reconcilable: true, expiresAt: 2_000_000 });
    const run = begin().send(calling(call));
    expect(run.context.calls).toEqual([{ ...call, status: 'gated', attempt: 0 }]);
  });
});

describe('rule 5: finish reason and calls', () => {
  const withCall = (finishReason: FinishReason) =>
    begin().send(makeTurn({ finishReason, calls: [makeCall('a')] }));
  const without = (finishReason: FinishReason) => begin().send(makeTurn({ finishReason, text: 'so far' }));

  it.each(['stop', 'unknown', 'tool_calls', 'pause'] as const)('calls with %s run', finishReason => {
    expect(withCall(finishReason).place).toBe('executingTools');
  });

  it('calls of a truncated turn do not run: each gets an error result, and the model is called', () => {
    const calls = [makeCall('a'), gated('b'), forClient('c'), makeCall('d', { error: 'cut in the middle' })];
    const run = begin().send(makeTurn({ finishReason: 'length', calls }));
    expect(run.place).toBe('turn.planning');
    expect(run.countStarts('toolBatch')).toBe(0);
    expect(run.results.map(({ callId }) => callId)).toEqual(['a', 'b', 'c', 'd']);
    for (const { output, isError } of run.results) {
      expect(isError).toBe(true);
      expect(output).toContain('cut off at its length limit');
    }
    expect(run.context.toolCalls).toBe(0);
  });

  it.each(['length', 'content_filter'] as const)('%s without calls finishes as incomplete', finishReason => {
    const run = without(finishReason);
    expect(run.place).toBe('finished');
    expect(run.next).toMatchObject({ type: 'finish', reason: finishReason });
    expect(run.context.answer).toEqual({ text: 'so far' });
  });

  it('calls with content_filter do not run, and the run finishes as incomplete', () => {
    const run = withCall('content_filter');
    expect(run.place).toBe('finished');
    expect(run.next).toMatchObject({ reason: 'content_filter' });
    expect(run.results).toMatchObject([{ callId: 'a', isError: true }]);
  });

  it('pause calls the model again without a user message', () => {
    const run = without('pause');
    expect(run.place).toBe('turn.planning');
    expect(run.turn.number).toBe(2);
    expect(run.context.transcript.at(-1)).toMatchObject({ role: 'assistant' });
  });

  it('a paused answer and its continuation are one answer', () => {
    const run = without('pause').send(answering(', and the rest'));
    expect(run.place).toBe('finished');
    expect(run.context.answer).toEqual({ text: 'so far, and the rest' });
  });

  it('a paused closing turn leaves an incomplete answer', () => {
    const run = begin({ finalAnswer: 'separate' }).send(
      answering('a draft'),
      makeTurn({ finishReason: 'pause', text: 'so far' }),
    );
    expect(run.place).toBe('finished');
    expect(run.next).toMatchObject({ type: 'finish', reason: 'pause' });
  });

  it('text before later calls is not the answer', () => {
    const run = begin({ onLimit: 'stop', limits: { turns: 2 } });
    run.send(saying('and?'), answering('too early'), calling(makeCall('a'))).finish('a');
    expect(run.place).toBe('finished');
    expect(run.next).toMatchObject({ reason: 'turns' });
    expect(run.context.answer).toBeNull();
  });

  it('a paused turn is not a draft and stays in the transcript', () => {
    const run = begin({ finalAnswer: 'separate' }).send(makeTurn({ finishReason: 'pause', text: 'so far' }));
    expect(run.texts).toEqual(['begin', 'so far']);
    expect(run.turn.final).toBe(false);
  });

  it.each(['stop', 'tool_calls', 'unknown'] as const)('%s without calls is the answer', finishReason => {
    const run = without(finishReason);
    expect(run.place).toBe('finished');
    expect(run.next).not.toHaveProperty('reason');
  });

  it('an error is a failed turn, and none of it enters the transcript', () => {
    const run = begin({ attempts: 1 }).send(failing());
    expect(run.place).toBe('failed');
    expect(run.texts).toEqual(['begin']);
    expect(run.context.turns).toBe(0);
  });
});
