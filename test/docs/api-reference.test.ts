import { globSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { apiReference } from '../support/docs/api-reference.ts';

const pages = apiReference();

test('every link to the reference resolves to an export of the package', () => {
  const docs = new URL('../../docs/', import.meta.url);
  const links = globSync('{*,guide/*}.md', { cwd: docs }).flatMap(file => [
    ...readFileSync(new URL(file, docs), 'utf8').matchAll(/\]\((?:\.\.\/)?(api\/[\w-]+\.md)#(\w+)\)/g),
  ]);
  expect(links.length).toBeGreaterThan(0);
  const titles = (page: string) =>
    [...(pages.get(page) ?? '').matchAll(/^### (\w+)$/gm)].map(([, name = '']) => name);
  const broken = links.filter(
    ([, page = '', anchor = '']) => !titles(page).some(name => name.toLowerCase() === anchor),
  );
  expect(broken.map(([link]) => link)).toEqual([]);
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
