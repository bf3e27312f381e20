import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

/** The worker in one file, so that a process starts fast; gives its path. */
export async function buildWorker(folder: string): Promise<string> {
  const outfile = join(folder, 'worker.mjs');
  await build({
    entryPoints: [fileURLToPath(new URL('worker.ts', import.meta.url))],
    outfile,
    ...{ bundle: true, minify: true, platform: 'node', format: 'esm', logLevel: 'error' },
    banner: { js: "import { createRequire } from 'node:module'; const require = createRequire('/');" },
  });
  return outfile;
}
