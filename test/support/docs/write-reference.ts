/** Writes the pages of docs/ that are made from the sources and not kept in git: `npm run docs:api`. */
import { existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { apiReference } from './api-reference.ts';
import { errorPages } from './error-pages.ts';
import { referencePages } from './reference-pages.ts';

const docs = fileURLToPath(new URL('../../../docs/', import.meta.url));
const security = readFileSync(`${docs}../SECURITY.md`, 'utf8').replaceAll('](docs/', '](');
const pages = new Map([...apiReference(), ...errorPages(), ...referencePages(), ['security.md', security]]);

for (const file of globSync('{api,errors,reference}/*.md', { cwd: docs })) {
  if (!pages.has(file.replaceAll('\\', '/'))) rmSync(`${docs}${file}`);
}
for (const [path, text] of pages) {
  const file = `${docs}${path}`;
  if (existsSync(file) && readFileSync(file, 'utf8') === text) continue;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}
