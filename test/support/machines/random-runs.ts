import fc from 'fast-check';
import type { RunConfig } from '../../../protocol/config.ts';
import { makeConfig } from './builders.ts';
import { everyCall, MIXED_ROUNDS, makeEnvironment } from './environments.ts';

/** Every event, with every kind of call. */
export const WORLD = makeEnvironment({ rounds: [...MIXED_ROUNDS, ...everyCall()], sticky: true });

export const configs: fc.Arbitrary<RunConfig> = fc
  .record({
    finalAnswer: fc.constantFrom('live', 'held', 'separate'),
    onMessage: fc.constantFrom('supersede', 'queue'),
    onLimit: fc.constantFrom('answer', 'stop'),
    checksAnswer: fc.boolean(),
    attempts: fc.integer({ min: 1, max: 3 }),
    limits: fc.record({
      turns: fc.integer({ min: 1, max: 6 }),
      toolCalls: fc.nat({ max: 6 }),
      activeMs: fc.integer({ min: 5, max: 500 }),
      repeatedFailures: fc.integer({ min: 1, max: 3 }),
    }),
  })
  .map(change => makeConfig(change));

/** The indexes of the chosen events, modulo the events on offer. */
export const choices = fc.array(fc.nat(), { minLength: 1, maxLength: 60 });
