import fc from 'fast-check';
import type { RunConfig } from '../../../protocol/config.ts';
import { makeConfig } from './builders.ts';
import { everyCall, MIXED_ROUNDS, makeEnvironment } from './environments.ts';

/** Everything that can happen, with whatever calls. */
export const WORLD = makeEnvironment({ rounds: [...MIXED_ROUNDS, ...everyCall()], sticky: true });

export const configs: fc.Arbitrary<RunConfig> = fc
  .record({
    finalAnswer: fc.constantFrom('live', 'held', 'separate'),
    onMessage: fc.constantFrom('supersede', 'queue'),
    onLimit: fc.constantFrom('answer', 'stop'),
    finishers: fc.boolean(),
    attempts: fc.integer({ min: 1, max: 3 }),
    limits: fc.record({
      turns: fc.integer({ min: 1, max: 6 }),
      toolCalls: fc.nat({ max: 6 }),
      activeMs: fc.integer({ min: 5, max: 500 }),
      repeatedFailures: fc.integer({ min: 1, max: 3 }),
    }),
  })
  .map(change => makeConfig(change));

/** Which of the events on offer happens, time after time. */
export const choices = fc.array(fc.nat(), { minLength: 1, maxLength: 60 });
