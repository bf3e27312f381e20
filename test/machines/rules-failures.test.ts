import { describe, expect, it } from 'vitest';
import { toJson } from '../../protocol/json.ts';
import {
  answering,
  approving,
  begin,
  calling,
  failing,
  forClient,
  gated,
  makeCall,
  makeTurn,
  saying,
  settling,
  starting,
} from '../support/machines/builders.ts';

const MODELS = ['first', 'second'].map(model => ({ provider: 'test', model }));

describe('rule 11: retry', () => {
  it('waits until retryAt, then calls the same model again in the same turn', () => {
    const run = begin().send(failing({ retryAt: 1_005_000 }));
    expect(run.place).toBe('backingOff');
    expect(run.effects.at(-1)).toMatchObject({
      type: 'start',
      service: 'timer',
      input: { until: 1_005_000 },
    });
    run.send({ type: 'timer.fired', at: 1_005_000 });
    expect(run.place).toBe('turn.planning');
    expect(run.turn).toMatchObject({ number: 1, attempt: 2, model: 0 });
    expect(run.context.failure).toBe(null);
  });

  it('does not wait when retryAt is already over', () => {
    expect(begin().send(failing({ retryAt: 1_000_000 })).turn.attempt).toBe(2);
    expect(begin().send(failing()).turn.attempt).toBe(2);
  });

  it('after the last attempt the next model takes over, for the rest of the run', () => {
    const run = begin({ attempts: 2, models: MODELS }).send(failing(), failing());
    expect(run.next.why).toBe('overloaded after 2 attempts: falling back to second');
    expect(run.turn).toMatchObject({ number: 1, attempt: 1, model: 1 });
    run.send(calling(makeCall('a'))).finish('a');
    expect(run.turn).toMatchObject({ number: 2, attempt: 1, model: 1 });
  });

  it('an error that is not retryable moves to the next model immediately', () => {
    const run = begin({ models: MODELS }).send(failing({ retryable: false }));
    expect(run.turn).toMatchObject({ attempt: 1, model: 1 });
  });

  it('the run fails with the last error when no model is left', () => {
    const run = begin({ attempts: 1, models: MODELS }).send(failing(), failing({ code: 'quota' }));
    expect(run.place).toBe('failed');
    expect(run.next).toMatchObject({ type: 'fail', code: 'quota', message: 'the provider is busy' });
  });

  it('attempts are counted per turn', () => {
    const run = begin({ attempts: 2 })
      .send(failing(), calling(makeCall('a')))
      .finish('a')
      .send(failing());
    expect(run.turn).toMatchObject({ number: 2, attempt: 2 });
    expect(run.place).toBe('turn.planning');
  });

  it('a retry discards the text of the failed attempt only if a reader has seen text', () => {
    const run = begin().send(failing(), { type: 'text.started' }, failing(), failing());
    const published = run.effects.flatMap(effect => (effect.type === 'publish' ? [effect.notice] : []));
    const discarded = published.filter(({ type }) => type === 'text.discarded');
    expect(discarded).toEqual([{ type: 'text.discarded', turn: 1, attempt: 2 }]);
  });

  it('the separate answer is retried with tools off', () => {
    const run = begin({ finalAnswer: 'separate' }).send(answering('draft'), failing());
    expect(run.next.type).toBe('streamFinal');
    expect(run.turn).toMatchObject({ number: 2, attempt: 2, final: true });
  });

  it('reports of a failed attempt are ignored', () => {
    const run = begin().send(failing());
    expect(run.offer({ ...answering('late'), generation: 1 }).handled).toBe(false);
    expect(run.send(answering('now')).place).toBe('finished');
  });
});

describe('finishing: guardrails and the output schema check the answer', () => {
  const reject = { type: 'answer.blocked', reason: 'cite your sources' } as const;

  it('their output becomes the answer', () => {
    const run = begin({ checksAnswer: true }).send(answering('raw'));
    run.send({ type: 'answer.checked', text: 'checked', output: { n: 1 } });
    expect(run.place).toBe('finished');
    expect(run.context.answer).toEqual({ text: 'checked', output: { n: 1 } });
  });

  it('a blocked answer returns to the model with the reason', () => {
    const run = begin({ checksAnswer: true }).send(answering('raw'), reject);
    expect(run.place).toBe('turn.planning');
    expect(run.context.transcript.at(-1)).toMatchObject({ role: 'developer' });
    expect(run.texts.at(-1)).toBe('cite your sources');
    run.send(answering('better'), { type: 'answer.checked' });
    expect(run.context.answer).toEqual({ text: 'better' });
  });

  it('too many blocked answers fail the run', () => {
    const run = begin({ checksAnswer: true, answerBlocks: 1 });
    run.send(answering('one'), reject, answering('two'), reject);
    expect(run.place).toBe('failed');
    expect(run.next).toMatchObject({ code: 'answer-blocked' });
  });

  it('a run whose answer is not checked skips finishing', () => {
    expect(begin().send(answering('done')).countStarts('answerCheck')).toBe(0);
  });
});

describe('rule 12: context is JSON', () => {
  it('the context of a run with every feature equals its JSON', () => {
    const run = begin({ checksAnswer: true, models: MODELS, limits: { repeatedFailures: 5 } });
    run.send(failing({ retryAt: 1_000_500 }), { type: 'timer.fired' });
    run.send(calling(gated('a', { expiresAt: 2_000_000 }), forClient('b'), makeCall('c')));
    run
      .send(
        starting('c'),
        settling('c', { output: 'broke', isError: true }),
        approving('a', { sticky: true }),
      )
      .finish('a');
    run.send(saying('hello'), { type: 'result.received', callId: 'b', output: null, isError: false });
    run.send(makeTurn({ text: 'done' }));
    expect(run.place).toBe('finishing');
    expect(toJson(run.context)).toStrictEqual(run.context);
  });

  it('no service receives the transcript; the inputs are a generation and a time', () => {
    const run = begin({ checksAnswer: true }).send(
      calling(gated('a', { expiresAt: 2_000_000 })),
      approving('a'),
    );
    run.finish('a').send(failing({ retryAt: 3_000_000 }), { type: 'timer.fired' }, answering('done'));
    const inputs = run.effects.flatMap(effect =>
      effect.type === 'start' ? [Object.keys(effect.input)] : [],
    );
    expect(inputs).toHaveLength(7);
    expect([...new Set(inputs.flat())].sort()).toEqual(['generation', 'until']);
  });
});
