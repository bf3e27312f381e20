import { describe, expect, it } from 'vitest';
import { type Call, type CallStatus, type Context, createContext } from '../../machines/context.ts';
import { decideNextAction } from '../../machines/decide-next-action.ts';
import type { NextAction } from '../../protocol/effect.ts';
import { type ConfigChange, makeCall, makeConfig, makeStarted } from '../support/machines/builders.ts';

type Change = Partial<Omit<Context, 'config'>> & { config?: ConfigChange };

function contextWith({ config = {}, ...change }: Change): Context {
  const context = { ...createContext(makeStarted(makeConfig(config))), ...change };
  return { ...context, open: context.calls.filter(({ status }) => status !== 'settled').length };
}

const call = (callId: string, status: CallStatus): Call => ({ ...makeCall(callId), status, attempt: 0 });
const done = { provider: 'scripted', finishReason: 'stop', calls: 0, final: false, draft: false } as const;
const turn = { number: 1, attempt: 1, model: 0, final: false, shown: false };
const failure = { code: 'overloaded', message: 'busy', retryable: true, retryAt: null };
const [message] = createContext(makeStarted(makeConfig())).transcript;
const inbox = message === undefined ? [] : [message];
const models = ['first', 'second'].map(model => ({ provider: 'test', model }));
const answered = 'the model answered';
const spent = { turns: 1, config: { limits: { turns: 1 } } };
const { compaction } = createContext(makeStarted(makeConfig()));

const TABLE: readonly [when: string, change: Change, next: NextAction][] = [
  [
    'cancellation was requested, whatever else is pending',
    { paused: true, calls: [call('a', 'ready')], cancelling: { deadline: 5, by: 'ann', reason: 'enough' } },
    { type: 'pause', why: 'being cancelled by ann: enough' },
  ],
  ['nothing has happened', {}, { type: 'callModel', why: 'the run starts' }],
  [
    'calls may run, whatever else is open',
    { calls: [call('a', 'gated'), call('b', 'ready'), call('c', 'doubted'), call('d', 'waiting')] },
    { type: 'executeTools', calls: ['b'], why: '1 call of look may run' },
  ],
  [
    'a call is in doubt and others are gated',
    { calls: [call('a', 'gated'), call('b', 'doubted')] },
    { type: 'resolveDoubt', calls: ['b'], why: '1 call of look may or may not have happened' },
  ],
  [
    'calls are gated and others wait for the client',
    { calls: [call('a', 'gated'), call('b', 'waiting'), call('c', 'gated')] },
    { type: 'interruptForApproval', calls: ['a', 'c'], why: '2 calls of look need a decision' },
  ],
  [
    'calls only wait for the client',
    { calls: [call('a', 'settled'), call('b', 'waiting')] },
    { type: 'awaitResults', calls: ['b'], why: 'waiting for results of 1 call of look' },
  ],
  [
    'all calls have results',
    { lastTurn: { ...done, calls: 2 } },
    { type: 'callModel', why: '2 calls have their results' },
  ],
  [
    'the provider paused its turn',
    { lastTurn: { ...done, finishReason: 'pause' } },
    { type: 'callModel', why: 'the provider paused its turn' },
  ],
  [
    'a message is unread after an answer',
    { lastTurn: done, inbox },
    { type: 'callModel', why: '1 unread message' },
  ],
  [
    'there is a draft',
    { lastTurn: { ...done, draft: true } },
    { type: 'streamFinal', why: 'planning is complete: requesting the separate answer' },
  ],
  [
    'there is a draft and a limit is reached',
    { ...spent, lastTurn: { ...done, draft: true } },
    { type: 'streamFinal', limit: 'turns', why: 'limit turns: 1 of 1' },
  ],
  ['the model answered', { lastTurn: done }, { type: 'finish', check: false, why: answered }],
  [
    'the model answered and the answer is checked',
    { lastTurn: done, config: { checksAnswer: true } },
    { type: 'finish', check: true, why: answered },
  ],
  [
    'the answer was checked',
    { lastTurn: done, answerChecked: true, config: { checksAnswer: true } },
    { type: 'finish', check: false, why: answered },
  ],
  [
    'the answer was cut off',
    { lastTurn: { ...done, finishReason: 'length' } },
    { type: 'finish', check: false, reason: 'length', why: 'the answer is incomplete: length' },
  ],
  [
    'the turn with calls was stopped by a content filter',
    { lastTurn: { ...done, finishReason: 'content_filter', calls: 1 } },
    {
      type: 'finish',
      check: false,
      reason: 'content_filter',
      why: 'the answer is incomplete: content_filter',
    },
  ],
  [
    'the answer was rejected',
    { lastTurn: done, sentBack: { code: 'answer-blocked', reason: 'Cite.' }, blocks: 1 },
    { type: 'callModel', why: 'the answer was sent back, 1 of 1' },
  ],
  [
    'the answer was rejected too often',
    { lastTurn: done, sentBack: { code: 'answer-blocked', reason: 'Cite.' }, blocks: 2 },
    {
      type: 'fail',
      code: 'answer-blocked',
      message: 'the answer was refused 2 times, most recently: Cite.',
      why: 'the answer was refused 2 times, most recently: Cite.',
    },
  ],
  [
    'the answer was rejected once, and may not be repaired',
    {
      lastTurn: done,
      sentBack: { code: 'answer-blocked', reason: 'Cite.' },
      blocks: 1,
      config: { answerBlocks: 0 },
    },
    {
      type: 'fail',
      code: 'answer-blocked',
      message: 'the answer was refused: Cite.',
      why: 'the answer was refused: Cite.',
    },
  ],
  [
    'a limit is reached after a round',
    { ...spent, lastTurn: { ...done, calls: 1 } },
    { type: 'streamFinal', limit: 'turns', why: 'limit turns: 1 of 1' },
  ],
  [
    'a limit is reached and onLimit is stop',
    { turns: 1, lastTurn: { ...done, calls: 1 }, config: { limits: { turns: 1 }, onLimit: 'stop' } },
    { type: 'finish', check: false, reason: 'turns', why: 'the answer is incomplete: turns' },
  ],
  [
    'the closing call was made and a message is unread',
    { ...spent, lastTurn: { ...done, final: true }, closing: 'turns', inbox },
    { type: 'finish', check: false, reason: 'turns', why: 'the answer is incomplete: turns' },
  ],
  [
    'a turn failed and will be retried later',
    { turn, failure: { ...failure, retryAt: 1_000_700 } },
    { type: 'backOff', until: 1_000_700, why: 'attempt 2 of 3 after overloaded, in 700 ms' },
  ],
  [
    'a turn failed and can be retried now',
    { turn, failure },
    { type: 'callModel', why: 'attempt 2 of 3 after overloaded' },
  ],
  [
    'a final turn failed',
    { turn: { ...turn, final: true }, failure, closing: 'cost' },
    { type: 'streamFinal', limit: 'cost', why: 'attempt 2 of 3 after overloaded' },
  ],
  [
    'a turn failed for the last time and there is a fallback model',
    { turn: { ...turn, attempt: 3 }, failure, config: { models } },
    { type: 'callModel', why: 'overloaded after 3 attempts: falling back to second' },
  ],
  [
    'a turn failed and there is no fallback model',
    { turn: { ...turn, model: 1 }, failure: { ...failure, retryable: false }, config: { models } },
    { type: 'fail', code: 'overloaded', message: 'busy', why: 'busy' },
  ],
  [
    'the conversation is longer than its threshold',
    { compaction: { ...compaction, tokens: 100 }, config: { compaction: { at: [100], keep: 'lastRound' } } },
    {
      type: 'compact',
      why: 'the conversation has 100 of 100 tokens, before the next call: the run starts',
    },
  ],
  [
    'it is, and has not grown since a compaction failed',
    {
      compaction: { ...compaction, tokens: 100, from: 110 },
      config: { compaction: { at: [100], keep: 'lastRound' } },
    },
    { type: 'callModel', why: 'the run starts' },
  ],
  [
    'it is, and the provider paused its turn',
    {
      compaction: { ...compaction, tokens: 100 },
      config: { compaction: { at: [100], keep: 'lastRound' } },
      lastTurn: { ...done, finishReason: 'pause' },
    },
    { type: 'callModel', why: 'the provider paused its turn' },
  ],
  [
    'the run is paused before the model is called',
    { paused: true },
    { type: 'pause', why: 'paused before callModel (the run starts)' },
  ],
  [
    'the run is paused and has a step left',
    { paused: true, steps: 1 },
    { type: 'callModel', why: 'the run starts' },
  ],
  [
    'the run is paused and a call is gated',
    { paused: true, calls: [call('a', 'gated')] },
    { type: 'interruptForApproval', calls: ['a'], why: '1 call of look needs a decision' },
  ],
  [
    'a tool asks, and another call waits for its result',
    { calls: [call('a', 'waiting'), call('b', 'asking')] },
    { type: 'awaitAnswers', calls: ['b'], why: '1 call of look asked a question' },
  ],
  [
    'a person must sign in, before what failed is repeated',
    { signIns: [{ server: 'crm' }], failure },
    { type: 'awaitSignIn', servers: ['crm'], why: 'a person must sign in at crm' },
  ],
  [
    'the answer is under review',
    {
      lastTurn: done,
      config: { checksAnswer: true },
      review: { id: 'review_1', digest: 'd', reason: 'it names a price' },
    },
    { type: 'awaitReview', why: 'the answer needs a review: it names a price' },
  ],
  [
    'a person sent the answer back, more often than guardrails may',
    { lastTurn: done, sentBack: { code: 'answer-blocked', reason: 'no', reviewed: true }, blocks: 9 },
    { type: 'callModel', why: 'a person sent the answer back' },
  ],
  [
    'the run is paused and has an answer',
    { paused: true, lastTurn: done },
    { type: 'finish', check: false, why: answered },
  ],
  [
    'the run is paused before its answer is checked',
    { paused: true, lastTurn: done, config: { checksAnswer: true } },
    { type: 'pause', why: `paused before finish (${answered})` },
  ],
];

describe('decideNextAction', () => {
  it.each(TABLE)('when %s', (_when, change, next) => {
    expect(decideNextAction(contextWith(change))).toEqual(next);
  });

  it('depends only on the context, and does not change it', () => {
    for (const [, change] of TABLE) {
      const context = contextWith(change);
      const before = JSON.stringify(context);
      expect(decideNextAction(context)).toEqual(decideNextAction(JSON.parse(before)));
      expect(JSON.stringify(context)).toBe(before);
    }
  });

  it('the table covers every action', () => {
    const actions: Record<NextAction['type'], true> = {
      callModel: true,
      streamFinal: true,
      compact: true,
      executeTools: true,
      interruptForApproval: true,
      awaitReview: true,
      awaitAnswers: true,
      awaitSignIn: true,
      awaitResults: true,
      resolveDoubt: true,
      backOff: true,
      pause: true,
      finish: true,
      fail: true,
    };
    expect(new Set(TABLE.map(([, , { type }]) => type))).toEqual(new Set(Object.keys(actions)));
  });
});
