/**
 * `npm run build`, after `tsc` has written the declarations: the code of the package. Every entry of
 * package.json is one file of `dist`, and what entries share is in `dist/chunks`, so that a class is the same
 * one from every entry. Three chunks hold what entries share most: the machine with a model, for pages that need no
 * more; the rest of `agentchart/machine`; and what `agentchart` needs besides. More would slow an import down.
 * Of the declarations only those that the entries need stay, and `dist/src` has the sources that their maps refer to.
 */
import { copyFileSync, globSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Plugin, rolldown } from 'rolldown';
import * as z from 'zod';
import { buildPage } from './visualizer/build-page.ts';

/**
 * A dependency whose used parts are bundled anyway: of zod its languages and most formats are not used here.
 * Dev dependencies that the code imports are bundled too, because only a small part of each is used. xstate stays
 * outside: a program makes actors of our machine with its own copy.
 */
const BUNDLED = 'zod';

const ROOT = fileURLToPath(new URL('.', import.meta.url));

const { exports, bin, dependencies, peerDependencies, homepage } = z
  .object({
    exports: z.record(z.string(), z.string()),
    bin: z.record(z.string(), z.string()),
    dependencies: z.record(z.string(), z.string()),
    peerDependencies: z.record(z.string(), z.string()),
    homepage: z.exactOptional(z.url()),
  })
  .parse(JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')));

const packages = Object.keys({ ...dependencies, ...peerDependencies }).filter(name => name !== BUNDLED);

/** In the package the page is a text, made now: its sources and esbuild are not shipped. */
const builtPage: Plugin = {
  name: 'built-page',
  load: {
    filter: { id: /visualizer[\\/]build-page\.ts$/ },
    handler: async () =>
      `const page = ${JSON.stringify(await buildPage())};\nexport const buildPage = async () => page;`,
  },
};

/** At a release package.json has the address of the site. */
const docsSite: Plugin = {
  name: 'docs-site',
  load: {
    filter: { id: /protocol[\\/]docs-site\.ts$/ },
    handler: () => `export const DOCS_SITE = ${JSON.stringify(homepage)};`,
  },
};

const plugins = [builtPage, docsSite];

const options = {
  cwd: ROOT,
  platform: 'node',
  external: (id: string) => packages.some(name => id === name || id.startsWith(`${name}/`)),
} as const;

/** The modules whose code an import of one of ours loads; one of which nothing is used is left out. */
async function findImports(entry: string): Promise<ReadonlySet<string>> {
  const bundle = await rolldown({ ...options, input: `${ROOT}${entry}`, plugins });
  const { output } = await bundle.generate({ format: 'esm' });
  await bundle.close();
  const chunks = new Map(
    output.flatMap(file => (file.type === 'chunk' ? [[file.fileName, file] as const] : [])),
  );
  const found = new Set<string>();
  const visit = (name: string) => {
    const chunk = chunks.get(name);
    if (chunk === undefined || !chunks.delete(name)) return;
    for (const id of chunk.moduleIds) found.add(id);
    chunk.imports.forEach(visit);
  };
  visit(output[0].fileName);
  return found;
}

const core = ['engine/driver/live.ts', 'machines/snapshot.ts', 'machines/step.ts'];
const machine = new Set((await Promise.all(core.map(findImports))).flatMap(found => [...found]));
/** All that a page loads if it only observes a run. */
const page = await findImports('fronts/react/remote-run.ts');
const loop = await findImports('agent/machine.ts');
const library = await findImports('agent/index.ts');
const entries = [...Object.values(exports), ...Object.values(bin)]
  .filter(file => file.endsWith('.js'))
  .map(file => file.replace(/^(\.\/)?dist\//, '').replace(/\.js$/, ''));
const bundle = await rolldown({
  ...options,
  input: Object.fromEntries(entries.map(entry => [entry, `${ROOT}${entry}.ts`])),
  plugins,
});
const { output } = await bundle.write({
  dir: `${ROOT}dist`,
  format: 'esm',
  entryFileNames: '[name].js',
  chunkFileNames: 'chunks/[name]-[hash].js',
  comments: { jsdoc: false },
  codeSplitting: {
    groups: [
      { name: 'shared', priority: 4, test: id => page.has(id) && library.has(id) },
      { name: 'machine', priority: 3, test: id => machine.has(id) },
      { name: 'loop', priority: 2, test: id => loop.has(id) },
      { name: 'library', priority: 1, test: id => library.has(id) },
    ],
  },
});
await bundle.close();

/** The folders of the packages whose code is in the bundle. */
const bundled = new Set(
  output
    .flatMap(file => (file.type === 'chunk' ? file.moduleIds : []))
    .flatMap(id => /^\0?(.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+)[\\/]/.exec(id)?.[1] ?? []),
);

/** The name and the license of a package, which its terms require beside its code. */
function describeLicense(folder: string): string {
  const { name, license } = z
    .object({ name: z.string(), license: z.string() })
    .parse(JSON.parse(readFileSync(`${folder}/package.json`, 'utf8')));
  const file = readdirSync(folder).find(entry => /^licen[cs]e/i.test(entry));
  return `${name} (${license})\n\n${file === undefined ? '' : readFileSync(`${folder}/${file}`, 'utf8')}`;
}

const licenses = [...bundled].sort().map(describeLicense);
writeFileSync(`${ROOT}dist/LICENSES.txt`, licenses.join('\n\n'));
copyFileSync(`${ROOT}docs/gateway-config.schema.json`, `${ROOT}dist/gateway-config.schema.json`);

/** Adds a declaration file and all that it imports, directly or indirectly. Paths are relative to `dist`. */
function addDeclarations(file: string, found: Set<string>): void {
  if (found.has(file)) return;
  found.add(file);
  const text = readFileSync(`${ROOT}dist/${file}`, 'utf8');
  for (const [, imported = ''] of text.matchAll(/(?:from |import\()["'](\.[^"']+)\.[jt]s["']/g))
    addDeclarations(join(dirname(file), `${imported}.d.ts`), found);
}

/** Copies the source of a declaration file to `dist/src`, and lets its map refer to the copy. */
function copySource(file: string): void {
  const source = file.replace(/\.d\.ts$/, '.ts');
  const copy = `src/${source}`;
  mkdirSync(`${ROOT}dist/${dirname(copy)}`, { recursive: true });
  copyFileSync(`${ROOT}${source}`, `${ROOT}dist/${copy}`);
  const map = JSON.parse(readFileSync(`${ROOT}dist/${file}.map`, 'utf8'));
  const sources = [relative(dirname(file), copy)];
  writeFileSync(`${ROOT}dist/${file}.map`, JSON.stringify({ ...map, sources }));
}

const kept = new Set<string>();
for (const file of Object.values(exports).filter(file => file.endsWith('.js')))
  addDeclarations(file.replace(/^\.\/dist\/(.*)\.js$/, '$1.d.ts'), kept);
for (const file of globSync('**/*.d.ts', { cwd: `${ROOT}dist` })) {
  if (kept.has(file)) copySource(file);
  else for (const unused of [file, `${file}.map`]) rmSync(`${ROOT}dist/${unused}`);
}
