import type { Environment } from '../../../explore/environment.ts';
import type { ConfigChange } from './builders.ts';
import { call, clientCall, everyCall, gatedCall, MIXED_ROUNDS, makeEnvironment } from './environments.ts';

/** A configuration with small limits, and the environment in which it is explored. */
export type Walk = {
  name: string;
  config: ConfigChange;
  environment: Environment;
  /** Together, the basic walks take every edge of the chart. */
  isBasic?: true;
};

const SMALL = { limits: { turns: 2, toolCalls: 3 }, attempts: 1 } as const;
const MODELS = ['first', 'second'].map(model => ({ provider: 'test', model }));
const THREE = [call(), call({ sideEffect: 'once' }), gatedCall()];
const PLAIN = makeEnvironment();
const RULED = {
  ask: gatedCall({ verdicts: [{ rule: 'ask', verdict: 'ask' }] }),
  stop: call({ verdicts: [{ rule: 'stop', verdict: 'stop' }], error: 'Not run: it is enough.' }),
};
const HAND_OFFS = [
  [call({ name: 'transfer', answers: 'directly' })],
  [gatedCall({ name: 'transfer', sideEffect: 'none', answers: 'directly' })],
  [call({ name: 'transfer_back', answers: 'back' })],
];

export const WALKS: readonly Walk[] = [
  {
    name: 'a run that holds after each turn and is edited',
    isBasic: true,
    config: { ...SMALL, holdsAtEnd: true, onLimit: 'stop' },
    environment: makeEnvironment({
      rounds: [[call(), gatedCall()], [clientCall()], [call({ sideEffect: 'once' })]],
      edits: true,
    }),
  },
  {
    name: 'breakpoints',
    isBasic: true,
    config: { limits: { turns: 1, toolCalls: 1 }, attempts: 1, onLimit: 'stop', onMessage: 'queue' },
    environment: makeEnvironment({ rounds: [[gatedCall()]], breakpoints: true }),
  },
  {
    name: 'every kind of call',
    config: SMALL,
    environment: makeEnvironment({ rounds: everyCall(), sticky: true }),
  },
  { name: 'mixed rounds', config: SMALL, environment: makeEnvironment({ rounds: MIXED_ROUNDS }) },
  {
    name: 'queued messages',
    isBasic: true,
    config: { ...SMALL, onMessage: 'queue', onLimit: 'stop' },
    environment: makeEnvironment({ rounds: [[call(), gatedCall({ expiresInMs: 500 }), clientCall()]] }),
  },
  {
    name: 'more calls than the limit allows',
    config: { ...SMALL, limits: { turns: 2, toolCalls: 2 } },
    environment: makeEnvironment({ rounds: [THREE], sticky: true }),
  },
  {
    name: 'a limit on tokens, and turns that report none',
    config: { ...SMALL, limits: { ...SMALL.limits, tokens: 10 } },
    environment: PLAIN,
  },
  {
    name: 'a transcript that is judged and compacted',
    isBasic: true,
    config: { ...SMALL, onLimit: 'stop', compaction: { at: [10], keep: 'lastRound' } },
    environment: makeEnvironment({ rounds: [[call({ sideEffect: 'once' })]], sticky: true, judges: true }),
  },
  {
    name: 'guardrails of what the model reads',
    isBasic: true,
    config: { ...SMALL, onLimit: 'stop' },
    environment: { ...PLAIN, judges: true },
  },
  {
    name: 'rules that judge calls',
    isBasic: true,
    config: { ...SMALL, limits: { turns: 1, toolCalls: 3 }, onLimit: 'stop', onMessage: 'queue' },
    environment: makeEnvironment({
      rounds: [
        [call(), RULED.ask],
        [call({ name: 'other' }), RULED.stop],
      ],
      rules: true,
      sticky: true,
    }),
  },
  {
    name: 'servers of tools at which people must sign in',
    isBasic: true,
    config: {
      ...SMALL,
      limits: { turns: 2, toolCalls: 1 },
      onLimit: 'stop',
      compaction: { at: [10], keep: 'lastRound' },
    },
    environment: makeEnvironment({ rounds: [[call({ sideEffect: 'once' })]], signIns: true }),
  },
  {
    name: 'tools that ask before their calls begin',
    isBasic: true,
    config: { ...SMALL, limits: { turns: 1, toolCalls: 2 }, onLimit: 'stop' },
    environment: makeEnvironment({
      rounds: [[call({ sideEffect: 'once' })], [call(), gatedCall()]],
      asks: () => ({ in: 'prepare', most: 2, duties: { by: ['finance'], not: 'sender' } }),
      people: true,
    }),
  },
  {
    name: 'tools that ask after their calls have begun, and edits',
    isBasic: true,
    config: { ...SMALL, limits: { turns: 1, toolCalls: 2 }, onLimit: 'stop', onMessage: 'queue' },
    environment: makeEnvironment({
      rounds: [[call({ sideEffect: 'once' })], [call(), clientCall()]],
      asks: ({ executedBy }) => (executedBy === 'engine' ? { in: 'run', most: 2 } : null),
      edits: true,
    }),
  },
  {
    name: 'a conversation that is handed over',
    config: { ...SMALL, onLimit: 'stop', onMessage: 'queue', checksAnswer: true },
    environment: makeEnvironment({ rounds: HAND_OFFS, edits: true }),
  },
  {
    name: 'a conversation that is handed over, and messages that replace open calls',
    config: { ...SMALL, onLimit: 'stop' },
    environment: makeEnvironment({ rounds: HAND_OFFS }),
  },
  { name: 'checks of the answer', config: { ...SMALL, checksAnswer: true }, environment: PLAIN },
  {
    name: 'checks of a held answer, and a run that stops at its limits',
    isBasic: true,
    config: { ...SMALL, checksAnswer: true, finalAnswer: 'held', onLimit: 'stop', onMessage: 'queue' },
    environment: PLAIN,
  },
  {
    name: 'reviews of the answer',
    isBasic: true,
    config: { ...SMALL, checksAnswer: true, onLimit: 'stop' },
    environment: makeEnvironment({ reviews: [{}, { expiresInMs: 500 }] }),
  },
  {
    name: 'reviews by two people who did not write in the run, and edits',
    config: { ...SMALL, limits: { turns: 1, toolCalls: 1 }, checksAnswer: true, onMessage: 'queue' },
    environment: makeEnvironment({
      excludesSenders: true,
      reviews: [{ expiresInMs: 500, duties: { by: ['editors'], not: 'sender', quorum: 2 } }],
      people: true,
      edits: true,
    }),
  },
  {
    name: 'a separate answer',
    isBasic: true,
    config: { ...SMALL, finalAnswer: 'separate', attempts: 2 },
    environment: PLAIN,
  },
  {
    name: 'a separate answer that is checked, and a run that stops at its limits',
    config: { ...SMALL, finalAnswer: 'separate', checksAnswer: true, onLimit: 'stop' },
    environment: PLAIN,
  },
  {
    name: 'attempts and a second model',
    config: { ...SMALL, attempts: 2, models: MODELS, limits: { turns: 2, toolCalls: 1 } },
    environment: PLAIN,
  },
  {
    name: 'a second model for a separate answer',
    config: { ...SMALL, models: MODELS, finalAnswer: 'separate', limits: { turns: 2, toolCalls: 0 } },
    environment: PLAIN,
  },
];
