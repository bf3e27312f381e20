import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { insertFieldTables } from '../support/docs/field-tables.ts';

it('docs/request-fields.md has the tables of fields', () => {
  const page = readFileSync('docs/request-fields.md', 'utf8');
  expect(insertFieldTables(page), 'run: npm run docs').toBe(page);
});
