import type { PageFiles } from './build-page.ts';

export type PageAsset = { body: string; type: string };

/** `find` takes a path as the page asks for it, such as `/assets/page.js`. */
export type PageAssets = { html(): string; find(path: string): PageAsset | undefined };

let known: Promise<PageAssets> | undefined;

/**
 * The page's files: those in the package, or in a checkout built now from the sources, once a process.
 * Serve the HTML under a policy of `script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'`.
 */
export function pageAssets(): Promise<PageAssets> {
  known ??= import('./build-page.ts').then(({ buildPage }) => buildPage()).then(makeAssets);
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
