/**
 * `npm run build`, after `tsc` has written the declarations: the code of the package. Every entry of
 * package.json is one file of `dist`, and what entries share is in `dist/chunks`, so that a class is the same
 * one from every entry.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
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

/** In the package the page is a text, made now: its sources and esbuild are not shipped. */
const builtPage: Plugin = {
  name: 'built-page',
  setup({ onLoad }) {
    onLoad({ filter: /visualizer[\\/]build-page\.ts$/ }, async () => ({
      contents: `const page = ${JSON.stringify(await buildPage())};\nexport const buildPage = async () => page;`,
    }));
  },
};

await build({
  absWorkingDir: ROOT,
  entryPoints: [...Object.values(exports), ...Object.values(bin)]
    .filter(file => file.endsWith('.js'))
    .map(file => file.replace(/^(\.\/)?dist\//, '').replace(/\.js$/, '.ts')),
  outbase: '.',
  outdir: 'dist',
  chunkNames: 'chunks/[name]-[hash]',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node22.13',
  external: Object.keys({ ...dependencies, ...peerDependencies }).filter(name => !BUNDLED.includes(name)),
  plugins: [builtPage],
  logLevel: 'warning',
});

const licenses = BUNDLED.map(
  name => `${name}\n\n${readFileSync(`${ROOT}node_modules/${name}/LICENSE`, 'utf8')}`,
);
writeFileSync(`${ROOT}dist/LICENSES.txt`, licenses.join('\n\n'));
