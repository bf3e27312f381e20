import { readdirSync, readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { buildPage } from '../../visualizer/build-page.ts';
import { chartToSvg } from '../../visualizer/chart-svg.ts';
import { pageAssets } from '../../visualizer/page-assets.ts';

test.each(['/', '/runs/run_1'])(
  'every file that the HTML of %s references exists, and nothing is external or inline',
  async view => {
    const { html, find } = await pageAssets();
    const paths = [...html(view).matchAll(/(?:src|href)="(\/assets[^"]+)"/g)].map(([, path]) => path ?? '');
    expect(paths).toEqual(
      expect.arrayContaining(['/assets/icon.svg', '/assets/page.css', '/assets/page.js']),
    );
    for (const path of paths) expect(find(path)?.body.length).toBeGreaterThan(50);
    expect(html(view)).not.toMatch(/<style|style="|<script(?! type="module" src)|\son\w+="/);
    expect(find('/assets/../package.json')).toBeUndefined();
    expect(find('/assets/page.js')?.type).toBe('text/javascript; charset=utf-8');
  },
);

test('the HTML of a run names every script of its view, and the HTML of other views does not', async () => {
  const { html } = await pageAssets();
  const { scripts } = await buildPage();
  const views = Object.keys(scripts).filter(name => name.startsWith('run-view'));
  const nameAll = (view: string) =>
    loadedNames(scripts, ['page.js', ...views]).every(name => html(view).includes(name));
  expect(['/runs/run_1', '/', '/runs', '/inbox', '/compare/run_1..run_2'].map(nameAll)).toEqual([
    true,
    false,
    false,
    false,
    false,
  ]);
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

test('the page stays small: the list loads no code of the chart, a run under 114 kB compressed', async () => {
  const { scripts, css } = await buildPage();
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
  expect(gzipSync(css + texts.join('')).length).toBeLessThan(142_000);
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
