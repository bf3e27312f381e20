import { describe, test } from 'vitest';
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
  });
  for (const { name, run } of checks) test(name, run);
});
