import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { insertBenchmarks } from '../support/docs/benchmark-table.ts';

test('the tables of docs/benchmarks.md are those of the committed result, as `npm run docs` writes them', () => {
  const page = readFileSync(new URL('../../docs/benchmarks.md', import.meta.url), 'utf8');
  expect(page).toBe(insertBenchmarks(page));
});
