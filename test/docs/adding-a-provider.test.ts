import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

test('docs/adding-a-provider.md quotes the source files exactly', () => {
  const page = read('docs/adding-a-provider.md');
  const quotes = [...page.matchAll(/`([\w./-]+)`:\n\n```ts\n([\s\S]*?)```/g)];
  expect(quotes.map(([, path]) => path)).toEqual([
    'adapters/cerebras.ts',
    'adapters/model-from-env.ts',
    'test/adapters/chat/cerebras.test.ts',
    'test/adapters/chat/cerebras.test.ts',
    'test/adapters/chat/cerebras.test.ts',
  ]);
  for (const [, path = '', code = ''] of quotes) expect(read(path), path).toContain(code);
  expect(page.match(/```ts/g)).toHaveLength(quotes.length);
  expect(read('adapters/cerebras.ts')).toBe(quotes[0]?.[2]);
});

test('package.json exports the provider that docs/adding-a-provider.md adds', () => {
  expect(JSON.parse(read('package.json')).exports).toHaveProperty(
    './adapters/cerebras',
    './dist/adapters/cerebras.js',
  );
});
