import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

/** What the first group matches, everywhere in a file. */
const findAll = (path: string, pattern: RegExp): string[] =>
  [...read(path).matchAll(pattern)].map(([, found = '']) => found);

test.each(['README.md', 'docs/why.md', 'docs/index.md'])(
  '%s counts the providers of docs/models.md',
  page => {
    // A provider with two APIs has two rows, with the same key.
    const keys = findAll('docs/models.md', /^\| `[\w-]+:MODEL` \|.*\| `(\w+_API_KEY)`/gm);
    expect(findAll(page, /(\d+) providers/g)).toEqual([`${new Set(keys).size}`]);
  },
);

test('the README names as many providers as it counts', () => {
  const [names = ''] = findAll('README.md', /^- \*\*Models\.\*\* (.*?), over plain `fetch`/gm);
  expect(findAll('README.md', /(\d+) providers/g)).toEqual([`${names.split(/, | and /).length}`]);
});

test('the pages say how many scenarios `npm run crash` has, and what its last full run was', () => {
  const [scenarios = ''] = findAll('test/crash/main.ts', /SCENARIOS = \{ sqlite: '(\d+)'/g);
  const about = Number(scenarios).toLocaleString('en');
  for (const page of ['docs/guarantees.md', 'CONTRIBUTING.md'])
    expect(findAll(page, /about ([\d,]+) scenarios/g)).toEqual([about]);

  const figures = ['README.md', 'docs/guarantees.md'].map(page => [
    ...findAll(page, /([\d,]+) scenarios,/g).slice(0, 1),
    ...findAll(page, /([\d,]+) (?:calls ended )?in doubt/g).slice(0, 1),
    ...findAll(page, /(\d+) of \d+(?: scenarios)?[.;]/g).slice(0, 1),
    ...findAll(page, /full run, on (\d+ \w+ \d{4})/g),
  ]);
  expect(figures[0]).toHaveLength(4);
  expect(figures[0]).toEqual(figures[1]);
});

test('the versions that the pages name are those that are tested', () => {
  const { optionalDependencies: runtimes } = JSON.parse(read('test/runtimes/package.json'));
  const [bun, deno] = ['@oven/bun-linux-x64', '@deno/linux-x64-glibc'].map(name =>
    runtimes[name].replace(/\.\d+$/, ''),
  );
  expect(read('docs/embedding.md')).toContain(`| Bun ${bun} | Deno ${deno} |`);
  const { engines, devDependencies } = JSON.parse(read('package.json'));
  const node = engines.node.replace('>=', '');
  for (const page of ['README.md', 'docs/guide/start.md'])
    expect(findAll(page, /needs Node ([\d.]+) or later/g)).toEqual([node]);
  const [, , sdk, agents] =
    /Tried with LangGraph\.js ([\d.]+), AI SDK (\d+), OpenAI Agents ([\d.]+);/.exec(read('README.md')) ?? [];
  expect(devDependencies.ai).toMatch(new RegExp(`^\\^${sdk}\\.`));
  expect(devDependencies['@openai/agents']).toMatch(new RegExp(`^\\^${agents}\\.`));
});
