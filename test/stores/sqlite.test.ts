import { globSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { storeChecks } from '../../stores/conformance.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { makeFile } from '../support/stores/make-file.ts';

describe('the sqlite store', () => {
  const files = new Map<object, string>();
  const openFile = (file: string) => {
    const store = sqlite(file);
    files.set(store, file);
    return store;
  };
  const checks = storeChecks({
    open: async () => openFile(makeFile()),
    reopen: async store => {
      await store.close();
      return openFile(files.get(store) ?? '');
    },
    openAgain: async store => openFile(files.get(store) ?? ''),
  });
  for (const { name, run } of checks) test(name, run);
});

test('no statement numbers its parameters: node:sqlite of Node 22.13 refuses the values of `?1`', () => {
  const files = globSync(new URL('../../stores/sqlite/**/*.ts', import.meta.url).pathname);
  expect(files.length).toBeGreaterThan(5);
  const numbered = files.filter(file =>
    /['`][^'`]*(?:SELECT|INSERT|UPDATE|DELETE)[^'`]*\?\d/.test(readFileSync(file, 'utf8')),
  );
  expect(numbered).toEqual([]);
});
