import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { insertErrorTable } from '../support/docs/error-table.ts';

test('docs/guide/errors.md has every error code, as `npm run docs` writes them', () => {
  const page = readFileSync(new URL('../../docs/guide/errors.md', import.meta.url), 'utf8');
  expect(page).toBe(insertErrorTable(page));
});
