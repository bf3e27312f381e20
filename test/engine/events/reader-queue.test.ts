import { expect, test } from 'vitest';
import { ReaderQueue } from '../../../engine/events/run-events.ts';
import { Written } from '../../support/engine/written-run.ts';

test('a reader that fell behind in a turn gets the rest of its text when it opens its queue again', () => {
  const run = new Written();
  const queue = new ReaderQueue(run.events, { most: 4, sizeOf: () => 1 });
  expect(queue.open()).toEqual([]);
  run.stream('abc', 1);
  expect(queue.drain()).toHaveLength(3);
  run.stream('defghi', 1);
  expect(queue.isBehind).toBe(true);
  expect(queue.open().map(({ text }) => text)).toEqual(['defghi']);
});
