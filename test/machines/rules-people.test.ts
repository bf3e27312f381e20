import { describe, expect, it } from 'vitest';
import {
  answering,
  approving,
  begin,
  calling,
  failing,
  forClient,
  gated,
  makeCall,
  rejecting,
  saying,
  starting,
  type UntimedEvent,
} from '../support/machines/builders.ts';

const PAUSE: UntimedEvent = { type: 'pause.requested' };
const STEP: UntimedEvent = { type: 'step.requested' };
const UNPAUSE: UntimedEvent = { type: 'run.unpaused' };
const unread = (run: ReturnType<typeof begin>) => run.context.inbox.length;

describe('rule 9: messages', () => {
  it('a message during a model call is read in the next turn', () => {
    const run = begin().send(saying('also this'));
    expect(run.texts).toEqual(['begin']);
    run.send(answering('first'));
    expect(run.place).toBe('turn.planning');
    expect(run.texts).toEqual(['begin', 'first', 'also this']);
    expect(unread(run)).toBe(0);
  });

  it('several messages are read together, in order', () => {
    const run = begin().send(saying('one'), saying('two'), answering('first'));
    expect(run.texts).toEqual(['begin', 'first', 'one', 'two']);
    expect(unread(run)).toBe(0);
  });

  it('supersede: a message at rest rejects the gated calls, and the model is called', () => {
    const run = begin().send(calling(gated('a'), gated('b')), saying('forget it'));
    expect(run.place).toBe('turn.planning');
    const superseded = { isError: true, output: 'Not run: superseded by a new message.' };
    expect(run.results).toMatchObject([superseded, superseded]);
    expect(run.context.transcript.at(-1)).toMatchObject({ type: 'message', role: 'user' });
  });

  it('supersede: a message during a batch rejects the gated calls, and not the running ones', () => {
    const run = begin().send(
      calling(makeCall('a'), gated('b'), forClient('c')),
      starting('a'),
      saying('stop'),
    );
    expect(run.open).toEqual({ a: 'running', c: 'waiting' });
  });

  it('supersede: an approved call is not rejected', () => {
    const run = begin().send(calling(gated('a'), gated('b')), approving('a'), saying('go on'));
    expect(run.open).toEqual({ a: 'queued' });
  });

  it('queue: a message waits while calls are gated', () => {
    const run = begin({ onMessage: 'queue' }).send(calling(gated('a')), saying('are you there?'));
    expect(run.place).toBe('resting.awaitingApproval');
    expect(unread(run)).toBe(1);
    run.send(rejecting('a'));
    expect(run.texts).toEqual(['begin', 'are you there?']);
  });

  it('a message during finishing returns the run to the model', () => {
    const run = begin({ checksAnswer: true }).send(answering('done'));
    expect(run.place).toBe('finishing');
    run.send(saying('one more thing'));
    expect(run.place).toBe('turn.planning');
    expect(run.effects.filter(({ type }) => type === 'stop')).toMatchObject([
      { id: 'modelTurn' },
      { id: 'answerCheck' },
    ]);
    expect(run.texts).toEqual(['begin', 'done', 'one more thing']);
  });

  it('a message during the wait of a failed turn is read by its next attempt', () => {
    const run = begin().send(failing({ retryAt: 2_000_000 }), saying('hello?'));
    expect(run.place).toBe('backingOff');
    expect(run.send({ type: 'timer.fired' }).texts).toEqual(['begin', 'hello?']);
  });

  it('a message that is too late is kept as unread', () => {
    const run = begin({ limits: { turns: 1 }, onLimit: 'stop' }).send(saying('too late'), answering('done'));
    expect(run.place).toBe('finished');
    expect(unread(run)).toBe(1);
    expect(run.next).toMatchObject({ reason: 'turns' });
  });

  it('no event is accepted after the end', () => {
    const run = begin().send(answering('done'));
    const before = run.state;
    expect(run.offer(saying('hello'), PAUSE, { type: 'run.cancelled', unsettled: [] }).handled).toBe(false);
    expect(run.state).toBe(before);
  });
});

describe('rule 10: pause', () => {
  it('is remembered while a service runs, and applied before the next spending action', () => {
    const run = begin().send(PAUSE);
    expect(run.place).toBe('turn.planning');
    run.send(calling(makeCall('a')));
    expect(run.place).toBe('resting.paused');
    expect(run.next.why).toBe('paused before executeTools (1 call of look may run)');
    expect(run.countStarts('modelTurn')).toBe(1);
    expect(run.send(UNPAUSE).place).toBe('executingTools');
  });

  it('blocks a resting run from continuing, and changes nothing else', () => {
    const run = begin().send(calling(gated('a')), PAUSE);
    expect(run.place).toBe('resting.awaitingApproval');
    run.send(approving('a'));
    expect(run.place).toBe('resting.paused');
    expect(run.open).toEqual({ a: 'ready' });
  });

  it('a step allows exactly one spending action', () => {
    const run = begin().send(PAUSE, calling(makeCall('a')), STEP);
    expect(run.place).toBe('executingTools');
    expect(run.finish('a').place).toBe('resting.paused');
    expect(run.send(STEP).place).toBe('turn.planning');
    expect(run.send(calling(makeCall('b'))).place).toBe('resting.paused');
  });

  it('two steps allow two actions, and unpausing discards remaining steps', () => {
    const run = begin()
      .send(PAUSE, calling(makeCall('a')), STEP, STEP)
      .finish('a');
    expect(run.place).toBe('turn.planning');
    expect(run.context.steps).toBe(0);
    run.send(STEP, STEP, UNPAUSE);
    expect(run.context).toMatchObject({ steps: 0, paused: false });
  });

  it('a step on a run that is not paused pauses it after one action', () => {
    const run = begin().send(calling(gated('a')), STEP);
    expect(run.context).toMatchObject({ paused: true, steps: 1 });
    run.send(approving('a')).finish('a');
    expect(run.place).toBe('resting.paused');
  });

  it('an answer ends a paused run without a step', () => {
    expect(begin().send(PAUSE, answering('done')).place).toBe('finished');
  });

  it('a check of the answer is a spending action: a paused run rests before it', () => {
    const run = begin({ checksAnswer: true }).send(PAUSE, answering('done'));
    expect(run.place).toBe('resting.paused');
    expect(run.send(STEP).place).toBe('finishing');
    expect(run.send({ type: 'answer.checked' }).place).toBe('finished');
  });

  it('a failed turn waits until retryAt, and then for the end of the pause', () => {
    const run = begin().send(PAUSE, failing({ retryAt: 2_000_000 }));
    expect(run.place).toBe('backingOff');
    run.send({ type: 'timer.fired' });
    expect(run.place).toBe('resting.paused');
    run.send(UNPAUSE);
    expect(run.turn).toMatchObject({ number: 1, attempt: 2 });
  });

  it('a pause during a model call does not repeat the call', () => {
    const run = begin().send(PAUSE, UNPAUSE, PAUSE, answering('done'));
    expect(run.countStarts('modelTurn')).toBe(1);
  });

  it('a second pause is not accepted, nor is unpausing a run that is not paused', () => {
    const run = begin();
    expect(run.offer(UNPAUSE).handled).toBe(false);
    expect(run.send(PAUSE).offer(PAUSE).handled).toBe(false);
  });
});
