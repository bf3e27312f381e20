import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { apiReference } from '../support/docs/api-reference.ts';

const folder = new URL('../../docs/api/', import.meta.url);

test('docs/api is what `npm run docs:api` writes', () => {
  const pages = apiReference();
  expect(readdirSync(folder).toSorted()).toEqual([...pages.keys()].toSorted());
  for (const [name, text] of pages) expect(readFileSync(new URL(name, folder), 'utf8'), name).toBe(text);
});
