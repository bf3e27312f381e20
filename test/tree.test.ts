import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

/** What may be in the repository: the kinds of files of each room, and their sizes. */

const ROOT = fileURLToPath(new URL('..', import.meta.url));

const SOURCES = ['.ts'];

/** The kinds of files of each top-level folder; of the root, the names of the files. */
const KINDS: Readonly<Record<string, readonly string[]>> = {
  '.ci': ['run', ...SOURCES],
  '.github': ['.md', '.yml'],
  access: SOURCES,
  adapters: SOURCES,
  agent: SOURCES,
  bench: [...SOURCES, '.js', '.json'],
  cli: SOURCES,
  'create-agentchart': [
    ...SOURCES,
    '.css',
    '.html',
    '.js',
    '.json',
    '.md',
    '.yaml',
    'Dockerfile',
    'LICENSE',
    'dockerignore',
    'env',
    'gitignore',
  ],
  deploy: ['.js', '.yaml', 'Dockerfile'],
  docs: ['.md', '.json', '.svg', '.png', '.webp', '.ts', '.css'],
  engine: SOURCES,
  explore: SOURCES,
  examples: [...SOURCES, '.tsx', '.jsx', '.js', '.css', '.csv', '.html', '.json', '.md'],
  fronts: [...SOURCES, '.tsx'],
  hosts: SOURCES,
  machines: SOURCES,
  protocol: SOURCES,
  regress: SOURCES,
  rules: SOURCES,
  runner: SOURCES,
  server: SOURCES,
  stores: SOURCES,
  testing: SOURCES,
  test: [...SOURCES, '.json', '.mjs', '.proto', '.sql', '.txt'],
  text: SOURCES,
  tools: SOURCES,
  visualizer: [...SOURCES, '.tsx', '.css', '.html', '.svg', '.json'],
};

const AT_ROOT: readonly string[] = [
  '.dockerignore',
  '.editorconfig',
  '.gitignore',
  '.nvmrc',
  'ARCHITECTURE.md',
  'CHANGELOG.md',
  'CODE_OF_CONDUCT.md',
  'CONTRIBUTING.md',
  'LICENSE',
  'README.md',
  'SECURITY.md',
  'biome.json',
  'build.ts',
  'knip.json',
  'package-lock.json',
  'package.json',
  'tsconfig.build.json',
  'tsconfig.json',
  'vitest.config.ts',
];

/** The largest files, in bytes, by kind; of other kinds 64 KiB. */
const MOST: Readonly<Record<string, number>> = {
  '.webp': 700_000,
  '.png': 250_000,
  '.json': 340_000,
  '.md': 180_000,
};

const files = existsSync(join(ROOT, '.git'))
  ? execFileSync('git', ['ls-files'], { cwd: ROOT, encoding: 'utf8' })
      .split('\n')
      .filter(file => file !== '' && existsSync(join(ROOT, file)))
  : [];

test.runIf(files.length > 0)('each file is of a kind that its folder is for', () => {
  const odd = files.filter(file => {
    const [room = '', ...rest] = file.split('/');
    if (rest.length === 0) return !AT_ROOT.includes(file);
    const name = rest.at(-1) ?? '';
    return !(KINDS[room] ?? []).includes(extname(name) || name);
  });
  expect(odd).toEqual([]);
});

test.runIf(files.length > 0)('no file is larger than its kind needs', () => {
  const large = files.filter(file => statSync(join(ROOT, file)).size > (MOST[extname(file)] ?? 65_536));
  expect(large).toEqual([]);
});

const DECLARED = /^(export )?(?:async )?(?:function\*?|const|let|class|interface|type|enum) (\w+)/gm;

/** The names that a file declares and exports, once each: a type and a value can have the same name. */
function listExports(file: string): ReadonlySet<string> {
  const text = readFileSync(join(ROOT, file), 'utf8');
  const listed = [...text.matchAll(/^export (?:type )?\{([^}]*)\};/gm)].flatMap(
    ([, list = '']) => list.match(/\w+/g) ?? [],
  );
  return new Set(
    [...text.matchAll(DECLARED)].flatMap(([, exported, name = '']) =>
      exported === undefined && !listed.includes(name) ? [] : [name],
    ),
  );
}

test.runIf(files.length > 0)('exported names are unique', () => {
  const sources = files.filter(
    file => /\.tsx?$/.test(file) && !/^(test|bench|examples|create-agentchart)\//.test(file),
  );
  const exported = sources.flatMap(file => [...listExports(file)].map(name => ({ name, file })));
  const places = Map.groupBy(exported, ({ name }) => name);
  const shared = [...places].filter(([, { length }]) => length > 1);
  expect(shared.map(([name, found]) => [name, ...found.map(({ file }) => file)])).toEqual([]);
});
