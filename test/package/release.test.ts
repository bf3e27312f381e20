import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { linkToSite } from '../../.ci/link-to-site.ts';
import { makeTemporaryFolder } from '../support/temporary-folders.ts';

/** What `.github/workflows/release.yml` does, up to the registry. */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FILES = [
  '.ci/prepare-release.ts',
  '.ci/link-to-site.ts',
  'CHANGELOG.md',
  'README.md',
  'docs/contents.json',
  'docs/guide/start.md',
  'package.json',
  'create-agentchart/package.json',
];

/** The files that a release is prepared from, in a folder of their own. */
function copyRelease(): string {
  const folder = makeTemporaryFolder('release');
  for (const file of FILES) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(join(ROOT, file), join(folder, file));
  }
  return folder;
}

const readManifest = (folder: string) => JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));

function prepare(folder: string, ...args: string[]) {
  return spawnSync(process.execPath, ['.ci/prepare-release.ts', ...args], { cwd: folder, encoding: 'utf8' });
}

const { version } = readManifest(ROOT);

/** The release as it is on its day: dated, and on a registry. */
function finish(folder: string): void {
  const change = (file: string, edit: (text: string) => string) =>
    writeFileSync(join(folder, file), edit(readFileSync(join(folder, file), 'utf8')));
  change('CHANGELOG.md', text => text.replace(/^## (\S+) – .*$/m, '## $1 – 2026-12-01'));
  for (const file of ['README.md', 'docs/guide/start.md'])
    change(file, text => text.replace('not on a registry yet', 'on the registry'));
}

test('the version is the same everywhere', () => {
  expect(readManifest(join(ROOT, 'create-agentchart')).version).toBe(version);
  expect(readFileSync(join(ROOT, 'tools/mcp/session.ts'), 'utf8')).toContain(`version: '${version}'`);
  expect(readFileSync(join(ROOT, 'CHANGELOG.md'), 'utf8')).toMatch(
    new RegExp(`^## ${version.replaceAll('.', '\\.')} – (\\d{4}-\\d{2}-\\d{2}|unreleased)$`, 'm'),
  );
});

test('a release sets where the sources are, in both packages', () => {
  const folder = copyRelease();
  finish(folder);
  expect(prepare(folder, `v${version}`, 'ada/engine')).toMatchObject({ status: 0, stderr: '' });
  const origin = {
    homepage: 'https://ada.github.io/engine',
    bugs: { url: 'https://github.com/ada/engine/issues' },
  };
  const repository = { type: 'git', url: 'git+https://github.com/ada/engine.git' };
  const directory = 'create-agentchart';
  expect(readManifest(folder)).toEqual({ ...readManifest(ROOT), ...origin, repository });
  expect(readManifest(join(folder, directory))).toEqual({
    ...readManifest(join(ROOT, directory)),
    ...origin,
    repository: { ...repository, directory },
  });
});

test('the links of the README that is published lead to the site, and nothing else in it changes', () => {
  const folder = copyRelease();
  finish(folder);
  const before = readFileSync(join(folder, 'README.md'), 'utf8');
  expect(prepare(folder, `v${version}`, 'ada/engine')).toMatchObject({ status: 0 });
  const after = readFileSync(join(folder, 'README.md'), 'utf8');
  expect(after).toContain('](https://ada.github.io/engine/guide/approvals.html)');
  expect(after).toContain('](https://ada.github.io/engine/guide/debugger.html#a-minute-on-the-page)');
  expect(after).toContain('](https://ada.github.io/engine/decisions/)');
  expect(after).toContain('](https://ada.github.io/engine/security.html)');
  const relative = [...after.matchAll(/\]\((?![a-z]+:|#)([^)]+)\)/g)].map(([, link]) => link);
  expect(relative).toEqual(['docs/images/chart.svg', 'CHANGELOG.md']);
  const back = after
    .replaceAll('](https://ada.github.io/engine/security.html', '](SECURITY.md')
    .replaceAll('](https://ada.github.io/engine/decisions/)', '](docs/decisions/README.md)')
    .replaceAll(/\]\(https:\/\/ada\.github\.io\/engine\/([^)#]+)\.html/g, '](docs/$1.md');
  expect(back).toBe(before);
});

test('a link of the README to a page that the site does not have is an error', () => {
  const pages = ['guide/*', 'decisions/README'];
  expect(linkToSite('[a](docs/guide/a.md#b) [c](docs/c.svg)', 'https://x.example', pages)).toBe(
    '[a](https://x.example/guide/a.html#b) [c](docs/c.svg)',
  );
  expect(() => linkToSite('[a](docs/a.md)', 'https://x.example', pages)).toThrow('links to docs/a.md');
});

test('a release is refused by name for what is not ready, and changes nothing', () => {
  const folder = copyRelease();
  const before = readManifest(folder);
  const { status, stderr } = prepare(folder, 'v9.9.9', 'nowhere');
  expect(status).toBe(1);
  expect(stderr.trimEnd().split('\n')).toEqual([
    'Expected OWNER/NAME of the repository, got "nowhere": node .ci/prepare-release.ts TAG OWNER/NAME',
    `package.json has the version ${version}, and the tag is "v9.9.9".`,
    `create-agentchart/package.json has the version ${version}, and the tag is "v9.9.9".`,
    'CHANGELOG.md has no heading "## 9.9.9 – YYYY-MM-DD".',
    'README.md says that the package is not on a registry yet.',
    'docs/guide/start.md says that the package is not on a registry yet.',
  ]);
  expect(readManifest(folder)).toEqual(before);
});
