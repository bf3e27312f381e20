import type { PageFiles } from './build-page.ts';

/** A file and its media type. `immutable`: its name changes with its content. */
type PageAsset = { body: string; type: string; immutable?: boolean };

/** The files of the page, by URL paths such as `/runs/run_1` and `/assets/page.js`. */
export type BuiltPageAssets = { html: string; find(path: string): PageAsset | undefined };

let known: Promise<BuiltPageAssets> | undefined;

/**
 * The page's files: prebuilt in the package; in a checkout, built from the sources once per process.
 * Serve the HTML with this Content-Security-Policy:
 * `script-src 'self'; style-src 'self' 'sha256-…'; img-src 'self' blob:; connect-src 'self'`, with the hash of its `<style>`.
 */
export function pageAssets(): Promise<BuiltPageAssets> {
  known ??= import('./build-page.ts').then(({ buildPage }) => buildPage()).then(makeAssets);
  known.catch(() => {
    known = undefined;
  });
  return known;
}

function makeAssets({ html, css, icon, scripts, offline }: PageFiles): BuiltPageAssets {
  const type = 'text/javascript; charset=utf-8';
  const assets = new Map<string, PageAsset>([
    ...Object.entries(scripts).map(
      ([name, body]) => [`/assets/${name}`, { body, type, immutable: name !== 'page.js' }] as const,
    ),
    ['/assets/offline.js', { body: offline, type }],
    ['/assets/page.css', { body: css, type: 'text/css; charset=utf-8' }],
    ['/assets/icon.svg', { body: icon, type: 'image/svg+xml; charset=utf-8' }],
  ]);
  return { html, find: path => assets.get(path) };
}
