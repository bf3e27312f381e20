import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { build, transform } from 'esbuild';
import { CHART_STYLE } from './chart-style.ts';

/** The files of the page as texts. */
export type PageFiles = { html: string; js: string; css: string; icon: string };

/** The style sheets of the page, in order: a later one may build on an earlier one. */
const STYLES = ['tokens', 'parts', 'shell', 'run', 'panes', 'views', 'inbox', 'compare'];

const PAGE = fileURLToPath(new URL('./page/', import.meta.url));

/** Bundles the page from its sources into one script and one style sheet, without external resources. Uses esbuild. */
export async function buildPage(): Promise<PageFiles> {
  const [html, icon, js, css] = await Promise.all([
    readFile(`${PAGE}index.html`, 'utf8'),
    readFile(`${PAGE}icon.svg`, 'utf8'),
    bundleScript(),
    readStyle(),
  ]);
  return { html, js, css, icon };
}

async function bundleScript(): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [`${PAGE}main.tsx`],
    bundle: true,
    write: false,
    minify: true,
    format: 'iife',
    platform: 'browser',
    target: 'es2023',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    define: { 'process.env.NODE_ENV': '"production"' },
    legalComments: 'none',
    logLevel: 'silent',
  });
  return outputFiles[0]?.text ?? '';
}

async function readStyle(): Promise<string> {
  const sheets = await Promise.all(STYLES.map(name => readFile(`${PAGE}styles/${name}.css`, 'utf8')));
  const { code } = await transform([CHART_STYLE, ...sheets].join('\n'), { loader: 'css', minify: true });
  return code;
}
