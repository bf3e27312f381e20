import { expect, test } from 'vitest';
import { translateError } from '../../stores/sqlite/translate-error.ts';
import { sqliteError } from '../support/stores/commits.ts';

test.each([
  [1, 'store-damaged'],
  [5, 'store-locked'],
  [6, 'store-locked'],
  [11, 'store-damaged'],
  [13, 'store-full'],
  [15, 'store-locked'],
  [19, 'store-damaged'],
  [26, 'store-damaged'],
  [4874, 'store-full'],
  [10, 'store-unavailable'],
  [5 + 256, 'store-locked'],
])('the code %s of SQLite is the fault %s', (code, fault) => {
  expect(translateError('runs.db', sqliteError(code, 'fault'))).toMatchObject({ code: fault });
});
