import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { errorPages } from '../support/docs/error-pages.ts';
import { insertErrorTable } from '../support/docs/error-table.ts';

test('docs/guide/errors.md has every error code, as `npm run docs` writes them', () => {
  const page = readFileSync(new URL('../../docs/guide/errors.md', import.meta.url), 'utf8');
  expect(page).toBe(insertErrorTable(page));
});

test('a code that only the server has, and one of an answer, has a page with the place where it appears', () => {
  const pages = errorPages();
  const placeOf = (code: string) =>
    /## Where it appears\n\n([\s\S]*?)\n\n\[All codes/.exec(pages.get(`errors/${code}.md`) ?? '')?.[1];
  expect(placeOf('forbidden')).toContain(
    '| over HTTP | status 403, `{ "error": { "code": "forbidden", … } }` |',
  );
  expect(placeOf('unauthorized')).toContain('status 401');
  expect(placeOf('internal')).toContain('status 500');
  expect(placeOf('internal')).not.toContain('command line');
  expect(placeOf('not-found')).toMatch(/status 404[\s\S]*`ProviderError`/);
  expect(placeOf('output-invalid')).toBe('As `settled.error.code` of a failed run.');
});
