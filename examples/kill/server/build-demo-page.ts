import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

export type DemoPage = { html: string; js: string; css: string };

const HERE = fileURLToPath(new URL('..', import.meta.url));
const BEGIN = '// The page shows from here\n';
const END = '  // to here';

/** Builds the page with esbuild: one script and one style sheet, no external resources. */
export async function buildDemoPage(): Promise<DemoPage> {
  const read = (file: string) => readFile(`${HERE}${file}`, 'utf8');
  const [html, css, loop] = await Promise.all(
    ['page/index.html', 'page/page.css', 'workers/plain-loop.ts'].map(read),
  );
  const { outputFiles } = await build({
    entryPoints: [`${HERE}page/main.ts`],
    bundle: true,
    write: false,
    minify: true,
    format: 'iife',
    platform: 'browser',
    target: 'es2023',
    legalComments: 'none',
    logLevel: 'silent',
    define: { LOOP_SOURCE: JSON.stringify(excerptLoop(loop ?? '')) },
  });
  return { html: html ?? '', css: css ?? '', js: outputFiles[0]?.text ?? '' };
}

/** Returns the lines of the plain loop that the page shows. */
function excerptLoop(source: string): string {
  const shown = source.split(BEGIN)[1]?.split(END)[0] ?? '';
  return shown.replaceAll(/^ {2}/gm, '').trim();
}
