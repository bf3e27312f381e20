import { expect, test } from 'vitest';
import type { Context } from '../../machines/context.ts';
import { diffStates } from '../../visualizer/page/model/state-diff.ts';

const state = (members: object) => members as Context;

test('a change is named by the path of what differs, not by the whole member as JSON', () => {
  const before = state({
    turns: 1,
    lastTurn: { calls: 2, final: false },
    answer: null,
    calls: [{ id: 'a' }],
  });
  const after = state({
    turns: 1,
    lastTurn: { calls: 0, final: false },
    answer: { text: 'Done.' },
    calls: [{ id: 'a', status: 'settled' }],
  });
  expect(diffStates(before, after)).toEqual({
    keys: 4,
    changed: 3,
    changes: [
      { key: 'lastTurn.calls', before: 2, after: 0 },
      { key: 'answer.text', before: undefined, after: 'Done.' },
      { key: 'calls.0.status', before: undefined, after: 'settled' },
    ],
  });
});

test('lists of another length, and members that end, are compared as values', () => {
  const before = state({ transcript: [1, 2], failure: { code: 'quota' } });
  const after = state({ transcript: [1, 2, 3], failure: null });
  expect(diffStates(before, after).changes).toEqual([
    { key: 'transcript', before: [1, 2], after: [1, 2, 3] },
    { key: 'failure', before: { code: 'quota' }, after: null },
  ]);
});
