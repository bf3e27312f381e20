import { expect, test } from 'vitest';
import { findContradiction } from '../../../engine/journal/evidence.ts';
import type { JournalEntry, RunEvent } from '../../../protocol/event.ts';

const LATE = { callId: 'a', attempt: 1, output: 'paid', isError: false };
const start = (attempt: number): RunEvent => ({
  type: 'tool.started',
  at: 1,
  generation: 1,
  callId: 'a',
  attempt,
  key: 'k',
});
const settle = (isError: boolean): RunEvent => ({
  type: 'tool.settled',
  at: 2,
  generation: 1,
  callId: 'a',
  output: 'gone',
  isError,
});
const failed: RunEvent = {
  type: 'doubt.resolved',
  at: 3,
  callId: 'a',
  resolution: { type: 'failed', reason: 'not seen' },
};

test.each<[string, RunEvent[], string | null]>([
  ['of the only attempt', [start(1)], null],
  [
    'of an attempt that was followed by another',
    [start(1), start(2)],
    'attempt 2 was started, so it may have happened twice',
  ],
  [
    'of an attempt before one that succeeded',
    [start(1), start(2), settle(false)],
    'attempt 2 succeeded, so it has happened twice',
  ],
  ['of a call that is recorded as succeeded', [start(1), settle(false)], null],
  ['of a call that is recorded as failed', [start(1), settle(true)], 'it is recorded as failed: "gone"'],
  [
    'of a call that a person resolved as failed',
    [start(1), failed],
    'a person said that it failed: not seen',
  ],
])('a late success %s contradicts the journal where it should', (_, events, expected) => {
  const other: RunEvent = {
    type: 'tool.settled',
    at: 4,
    generation: 1,
    callId: 'b',
    output: 'no',
    isError: true,
  };
  const entries = [...events, other].map((event, index): JournalEntry => ({ seq: index + 1, event }));
  expect(findContradiction(entries, LATE)).toBe(expected);
  expect(findContradiction(entries, { ...LATE, isError: true })).toBeNull();
});
