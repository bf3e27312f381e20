/**
 * `npm run build`, after `tsc` has written the declarations: the code of the package. Every entry of
 * package.json is one file of `dist`, and what entries share is in `dist/chunks`, so that a class is the same
 * one from every entry. What `agentchart/machine` needs is one chunk, and what `agentchart` needs besides is
 * another: each file costs an import some time.
 */
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Plugin, rolldown } from 'rolldown';
import * as z from 'zod';
import { buildPage } from './visualizer/build-page.ts';

/**
 * Packages whose used parts become ours: of zod its languages and most formats are not used here. xstate stays
 * outside, because a program makes actors of our machine with its own copy.
 */
const BUNDLED = ['zod', '@noble/hashes'];

const ROOT = fileURLToPath(new URL('.', import.meta.url));

const { exports, bin, dependencies, peerDependencies } = z
  .object({
    exports: z.record(z.string(), z.string()),
    bin: z.record(z.string(), z.string()),
    dependencies: z.record(z.string(), z.string()),
    peerDependencies: z.record(z.string(), z.string()),
  })
  .parse(JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')));

const packages = Object.keys({ ...dependencies, ...peerDependencies }).filter(
  name => !BUNDLED.includes(name),
);

/** In the package the page is a text, made now: its sources and esbuild are not shipped. */
const builtPage: Plugin = {
  name: 'built-page',
  load: {
    filter: { id: /visualizer[\\/]build-page\.ts$/ },
    handler: async () =>
      `const page = ${JSON.stringify(await buildPage())};\nexport const buildPage = async () => page;`,
  },
};

const options = {
  cwd: ROOT,
  platform: 'node',
  external: (id: string) => packages.some(name => id === name || id.startsWith(`${name}/`)),
} as const;

/** The modules that are loaded by importing one of ours, its own included. */
async function findImports(entry: string): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  const bundle = await rolldown({
    ...options,
    input: `${ROOT}${entry}`,
    plugins: [
      builtPage,
      {
        name: 'find-imports',
        buildEnd() {
          const visit = (id: string) => {
            if (found.has(id)) return;
            found.add(id);
            for (const imported of this.getModuleInfo(id)?.importedIds ?? []) visit(imported);
          };
          visit(`${ROOT}${entry}`);
        },
      },
    ],
  });
  await bundle.generate();
  await bundle.close();
  return found;
}

const machine = await findImports('tools/agent/machine.ts');
const library = await findImports('tools/agent/index.ts');
const entries = [...Object.values(exports), ...Object.values(bin)]
  .filter(file => file.endsWith('.js'))
  .map(file => file.replace(/^(\.\/)?dist\//, '').replace(/\.js$/, ''));
const bundle = await rolldown({
  ...options,
  input: Object.fromEntries(entries.map(entry => [entry, `${ROOT}${entry}.ts`])),
  plugins: [builtPage],
});
await bundle.write({
  dir: `${ROOT}dist`,
  format: 'esm',
  entryFileNames: '[name].js',
  chunkFileNames: 'chunks/[name]-[hash].js',
  codeSplitting: {
    groups: [
      { name: 'machine', priority: 2, test: id => machine.has(id) },
      { name: 'library', priority: 1, test: id => library.has(id) },
    ],
  },
});
await bundle.close();

const licenses = BUNDLED.map(
  name => `${name}\n\n${readFileSync(`${ROOT}node_modules/${name}/LICENSE`, 'utf8')}`,
);
writeFileSync(`${ROOT}dist/LICENSES.txt`, licenses.join('\n\n'));
copyFileSync(`${ROOT}docs/gateway-config.schema.json`, `${ROOT}dist/gateway-config.schema.json`);
