import { readFile } from 'node:fs/promises';
import type { PageFiles } from './build-page.ts';

export type PageAsset = { body: string; type: string };

/** `find` takes a path as the page asks for it, such as `/assets/page.js`. */
export type PageAssets = { html(): string; find(path: string): PageAsset | undefined };

let known: Promise<PageAssets> | undefined;

/**
 * The page's files: those `npm run build` made, or in a checkout built now from the sources, once a process.
 * Serve the HTML under a policy of `script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'`.
 */
export function pageAssets(): Promise<PageAssets> {
  known ??= loadFiles().then(makeAssets);
  known.catch(() => {
    known = undefined;
  });
  return known;
}

function makeAssets({ html, js, css, icon }: PageFiles): PageAssets {
  const assets = new Map<string, PageAsset>([
    ['/assets/page.js', { body: js, type: 'text/javascript; charset=utf-8' }],
    ['/assets/page.css', { body: css, type: 'text/css; charset=utf-8' }],
    ['/assets/icon.svg', { body: icon, type: 'image/svg+xml; charset=utf-8' }],
  ]);
  return { html: () => html, find: path => assets.get(path) };
}

async function loadFiles(): Promise<PageFiles> {
  const built = (name: string) => readFile(new URL(`./page/${name}`, import.meta.url), 'utf8');
  try {
    const [js, html, css, icon] = await Promise.all(
      ['page.js', 'index.html', 'page.built.css', 'icon.svg'].map(built),
    );
    if (js !== undefined && html !== undefined && css !== undefined && icon !== undefined)
      return { html, js, css, icon };
  } catch {
    // A checkout has sources only.
  }
  const { buildPage } = await import('./build-page.ts');
  return await buildPage();
}
