import { expect, test } from 'vitest';
import { begin, RUNNING, receive } from '../../stores/conformance/check.ts';
import { memory } from '../../stores/memory.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { makeFile } from '../support/stores/make-file.ts';

test.each([
  ['memory', () => memory()],
  ['sqlite', () => sqlite(makeFile())],
])('a watcher of %s that closes the store is the last that is called', async (_, open) => {
  const store = open();
  await store.create(begin('run'));
  const called: string[] = [];
  const closed = new Promise<void>(resolve => {
    store.watch?.('run', () => {
      called.push('first');
      resolve(store.close());
    });
  });
  store.watch?.('run', () => called.push('second'));
  await store.append('run', { after: 1, input: true }, [receive('hello')], RUNNING);
  await closed;
  expect(called).toEqual(['first']);
});
