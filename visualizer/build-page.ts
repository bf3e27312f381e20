import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { CHART_STYLE } from './chart-style.ts';

/** The files of the page as texts. */
export type PageFiles = { html: string; js: string; css: string; icon: string };

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
    entryPoints: [`${PAGE}main.ts`],
    bundle: true,
    write: false,
    minify: true,
    format: 'iife',
    platform: 'browser',
    target: 'es2023',
    legalComments: 'none',
    logLevel: 'silent',
  });
  return outputFiles[0]?.text ?? '';
}

async function readStyle(): Promise<string> {
  return `${CHART_STYLE}\n${await readFile(`${PAGE}page.css`, 'utf8')}`;
}
