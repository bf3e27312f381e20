import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { summarizePage } from '../../docs/.vitepress/summarize-page.ts';
import { errorPages } from '../support/docs/error-pages.ts';

test('the summary of a page is its first prose, and never code', () => {
  const page = [
    '# Title',
    '<!-- file: a.ts\nimport a from "a";\n\nexport default a;\n-->',
    '```sh\nagentchart serve\n\nagentchart runs\n```',
    '````md\nText.\n```ts\nlet a;\n```\n````',
    '| a | b |\n| --- | --- |',
    '- an item',
    '1. a step',
    '`run` starts\nhere. Read on:',
    'Later.',
  ];
  expect(summarizePage(page.join('\n\n'))).toBe('`run` starts here.');
  expect(summarizePage('# Only\n\nThe whole sentence leads on:\n\n- an item')).toBe(
    'The whole sentence leads on:',
  );
});

test('every page of docs/ has a sentence as its summary', () => {
  const docs = fileURLToPath(new URL('../../docs/', import.meta.url));
  const written = globSync('**/*.md', { cwd: docs }).map(
    file => [file, readFileSync(`${docs}${file}`, 'utf8').replace(/^---\n[\s\S]*?\n---\n+/, '')] as const,
  );
  const pages = new Map([...written, ...errorPages()]);
  const faulty = [...pages].filter(([, source]) => !/^\S+ .*[.?)]$/.test(summarizePage(source)));
  expect(faulty.map(([file]) => file)).toEqual([]);
});
