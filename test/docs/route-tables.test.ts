import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { insertRouteTables } from '../support/docs/route-tables.ts';

test('docs/server.md has every route, as `npm run docs` writes them', () => {
  const page = readFileSync(new URL('../../docs/server.md', import.meta.url), 'utf8');
  expect(page).toBe(insertRouteTables(page));
});
