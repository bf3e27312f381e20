import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

/** The bytes that exports of an entry add to a page that already has xstate; by default all of them. */
export async function measureInBrowser(file: string, names = '*'): Promise<number> {
  const { outputFiles } = await build({
    stdin: { contents: `export ${names} from '${file}'`, resolveDir: ROOT },
    bundle: true,
    minify: true,
    platform: 'browser',
    format: 'esm',
    external: ['xstate'],
    write: false,
    logLevel: 'silent',
  });
  return outputFiles[0]?.contents.length ?? Number.NaN;
}

/** The packages that a built file of a folder imports when it loads, directly or through its chunks, without Node's modules. */
export async function findPackages(folder: string, file: string): Promise<string[]> {
  const { metafile } = await build({
    absWorkingDir: folder,
    entryPoints: [file],
    bundle: true,
    splitting: true,
    outdir: 'measured',
    write: false,
    metafile: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    logLevel: 'silent',
  });
  const { inputs } = metafile;
  const found = new Set<string>();
  const seen = new Set<string>();
  const visit = (name: string) => {
    if (seen.has(name)) return;
    seen.add(name);
    for (const { path, kind, external } of inputs[name]?.imports ?? []) {
      if (kind !== 'import-statement') continue;
      if (external) found.add(path);
      else visit(path);
    }
  };
  visit(file);
  return [...found].filter(name => !name.startsWith('node:'));
}
