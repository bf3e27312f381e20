import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { apiReference } from '../support/docs/api-reference.ts';

const folder = new URL('../../docs/api/', import.meta.url);
const pages = apiReference();

test('docs/api is what `npm run docs:api` writes', () => {
  expect(readdirSync(folder).toSorted()).toEqual([...pages.keys()].toSorted());
  for (const [name, text] of pages) expect(readFileSync(new URL(name, folder), 'utf8'), name).toBe(text);
});

test('every function and class that the package exports has a doc comment', () => {
  const text = [...pages.values()].join('\n');
  expect(text.match(/^```ts\n(?:function|class) \w+/gm)?.length).toBeGreaterThan(80);
  expect(findUndocumented(text)).toEqual([]);
  expect(findUndocumented('### take\n\n```ts\nfunction take(): void\n```')).toEqual(['take']);
});

function findUndocumented(text: string): string[] {
  const undocumented = /^### (\w+)\n\n```ts\n(?:function|class|const \w+: (?:\(|<))/gm;
  return [...text.matchAll(undocumented)].map(([, name = '']) => name);
}
