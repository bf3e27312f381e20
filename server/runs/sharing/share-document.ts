import { createHash } from 'node:crypto';
import { ApiError } from '../../error-envelope.ts';
import type { PageAssets } from '../../page-assets.ts';

/**
 * Returns one HTML document that plays a run without a server: the page with its script and style, and the run as JSON
 * in `<script type="application/json" id="run">`. Its content security policy allows only this script and style, and
 * loads nothing. Throws `not-found` if the page's files are missing.
 */
export function makeShareDocument(assets: PageAssets, run: object): string {
  const script = textOf(assets, '/assets/offline.js').replaceAll(/<(\/script|!--)/gi, '\\x3c$1');
  const style = textOf(assets, '/assets/page.css').replaceAll(/<\/style/gi, '<\\/style');
  const policy = [
    "default-src 'none'",
    `script-src '${hashOf(script)}'`,
    `style-src '${hashOf(style)}'`,
    'img-src data: blob:',
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  const icon = assets.find('/assets/icon.svg');
  const image = icon && `data:image/svg+xml;base64,${Buffer.from(icon.body).toString('base64')}`;
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta http-equiv="Content-Security-Policy" content="${policy}" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <meta name="referrer" content="no-referrer" />
    <title>A run of Agentchart</title>
    ${image === undefined ? '' : `<link rel="icon" href="${image}" type="image/svg+xml" />`}
    <style>${style}</style>
  </head>
  <body>
    <div id="page"><noscript>This page requires JavaScript.</noscript></div>
    <script type="application/json" id="run">${embedJson(run)}</script>
    <script>${script}</script>
  </body>
</html>
`;
}

/** Returns JSON without `<`, so that it cannot end the element around it or begin a comment. */
function embedJson(value: object): string {
  return JSON.stringify(value)
    .replaceAll('<', '\\u003c')
    .replaceAll('\u2028', '\\u2028')
    .replaceAll('\u2029', '\\u2029');
}

function textOf(assets: PageAssets, path: string): string {
  const asset = assets.find(path);
  if (asset === undefined) throw new ApiError('not-found', 'This server has no page to share a run with.');
  return Buffer.from(asset.body).toString();
}

function hashOf(text: string): string {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`;
}
