/**
 * Prepares a checkout for `npm publish`: `node .ci/prepare-release.ts TAG OWNER/NAME`. Checks that the tag, both packages
 * and the change log are about the same version, sets the fields of both packages that say where the sources are, and lets
 * the links of README.md lead to the site. None of this is in the sources, because npm compares `repository` with the
 * repository that publishes.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { linkToSite } from './link-to-site.ts';

const PACKAGES = ['.', 'create-agentchart'];

const [tag = '', name = ''] = process.argv.slice(2);
const [owner, repository] = name.split('/');
const problems: string[] = [];

if (!/^[\w.-]+\/[\w.-]+$/.test(name))
  problems.push(
    `Expected OWNER/NAME of the repository, got "${name}": node .ci/prepare-release.ts TAG OWNER/NAME`,
  );
const manifests = PACKAGES.map(folder => {
  const file = join(folder, 'package.json');
  return { folder, file, manifest: JSON.parse(readFileSync(file, 'utf8')) };
});
for (const { file, manifest } of manifests)
  if (`v${manifest.version}` !== tag)
    problems.push(`${file} has the version ${manifest.version}, and the tag is "${tag}".`);
const heading = `## ${tag.replace(/^v/, '')} – `;
const dated = readFileSync('CHANGELOG.md', 'utf8')
  .split('\n')
  .some(line => line.startsWith(heading) && /^\d{4}-\d{2}-\d{2}$/.test(line.slice(heading.length)));
if (!dated) problems.push(`CHANGELOG.md has no heading "${heading}YYYY-MM-DD".`);

for (const file of ['README.md', 'docs/guide/start.md'])
  if (readFileSync(file, 'utf8').includes('not on a registry yet'))
    problems.push(`${file} says that the package is not on a registry yet.`);

if (problems.length > 0) {
  console.error(problems.join('\n'));
  process.exit(1);
}
const homepage = `https://${owner}.github.io/${repository}`;
const contents: { pages: string[] }[] = JSON.parse(readFileSync('docs/contents.json', 'utf8'));
const pages = contents.flatMap(section => section.pages);
writeFileSync('README.md', linkToSite(readFileSync('README.md', 'utf8'), homepage, pages));
for (const { folder, file, manifest } of manifests) {
  const source = `https://github.com/${name}`;
  const whole = {
    ...manifest,
    repository: { type: 'git', url: `git+${source}.git`, ...(folder !== '.' && { directory: folder }) },
    homepage,
    bugs: { url: `${source}/issues` },
  };
  writeFileSync(file, `${JSON.stringify(whole, null, 2)}\n`);
}
