import { expect, test } from 'vitest';
import { begin } from '../../stores/conformance/check.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { makeFile } from '../support/stores/make-file.ts';

test('other work of the process runs while a large run is removed from the file', async () => {
  const store = sqlite(makeFile());
  await store.create(begin('run'));
  await store.putBlob('run', '0'.repeat(64), 'x'.repeat(12_000_000));
  let turns = 0;
  let isOver = false;
  const count = () => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await store.delete('run');
  isOver = true;
  await store.close();
  // About 3,000 pages, of which a step frees 1,000.
  expect(turns).toBeGreaterThan(1);
});
