import { readdirSync, readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { buildPage } from '../../visualizer/build-page.ts';
import { chartToSvg } from '../../visualizer/chart-svg.ts';
import { pageAssets } from '../../visualizer/page-assets.ts';

test('every file that the HTML references exists, nothing is external, and no script is inline', async () => {
  const { html, find } = await pageAssets();
  const paths = [...html.matchAll(/(?:src|href)="(\/assets[^"]+)"/g)].map(([, path]) => path ?? '');
  expect(paths).toEqual(['/assets/icon.svg', '/assets/page.css', '/assets/page.js']);
  for (const path of paths) expect(find(path)?.body.length).toBeGreaterThan(50);
  expect(html.match(/<style>/g)).toHaveLength(1);
  expect(html).not.toMatch(/style="|<script(?! type="module" src)|\son\w+="|url\(/);
  expect(find('/assets/../package.json')).toBeUndefined();
  expect(find('/assets/page.js')?.type).toBe('text/javascript; charset=utf-8');
});

/** The text of all scripts that the browser loads with the named ones. */
function readLoaded(scripts: Readonly<Record<string, string>>, names: readonly string[]): string {
  return loadedNames(scripts, names)
    .map(name => scripts[name])
    .join('');
}

function loadedNames(scripts: Readonly<Record<string, string>>, names: readonly string[]): string[] {
  const loaded = new Set(names);
  for (const name of loaded)
    for (const [, next = ''] of (scripts[name] ?? '').matchAll(/(?:from|import)"\.\/([^"]+)"/g))
      loaded.add(next);
  return [...loaded];
}

test('the page stays small: the list loads no code of the chart, a run under 114 kB compressed, all files under 140 kB', async () => {
  const { html, css, icon, scripts } = await buildPage();
  const texts = Object.values(scripts);
  for (const js of texts) expect(js).not.toMatch(/org\.eclipse\.elk|\beval\(|document\.write/);
  const list = readLoaded(scripts, ['page.js']);
  expect(list).toContain('/inbox');
  expect(list).not.toContain('interruptForApproval');
  const view = Object.keys(scripts).filter(name => name.startsWith('run-view'));
  const run = readLoaded(scripts, ['page.js', ...view]);
  expect(run).toContain('interruptForApproval');
  expect(gzipSync(css + list).length).toBeLessThan(45_000);
  expect(gzipSync(css + run).length).toBeLessThan(114_000);
  const sizes = [html, css, icon, ...texts].map(text => gzipSync(text, { level: 9 }).length);
  expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(140_000);
});

test('no source of the page makes elements from markup', () => {
  const folder = new URL('../../visualizer/page/', import.meta.url);
  const sources = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(name =>
    /\.tsx?$/.test(name),
  );
  expect(sources.length).toBeGreaterThan(30);
  for (const name of sources)
    expect(readFileSync(new URL(name, folder), 'utf8'), name).not.toMatch(
      /innerHTML|outerHTML|insertAdjacentHTML|dangerouslySet|style="/,
    );
});

test('the picture in the page has no inline styles', async () => {
  const { scripts, css } = await buildPage();
  const js = Object.values(scripts).join('');
  expect(chartToSvg()).toContain('<style>');
  expect(js).toContain('class="chart"');
  expect(js).not.toContain('<style');
  expect(css).toContain('.chart .face');
});

test('no icon of the page is a character that a font may lack', () => {
  const folder = new URL('../../visualizer/page/', import.meta.url);
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' }))
    if (/\.(tsx?|css)$/.test(name))
      expect(readFileSync(new URL(name, folder), 'utf8'), name).not.toMatch(/[⏮⏭⏸◀▶▸▾❚✝⛔✓✗⚠‹›]/u);
});
