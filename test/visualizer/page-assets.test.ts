import { readdirSync, readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { buildPage } from '../../visualizer/build-page.ts';
import { chartToSvg } from '../../visualizer/chart-svg.ts';
import { pageAssets } from '../../visualizer/page-assets.ts';

test('every file that the HTML references exists, and nothing is external or inline', async () => {
  const { html, find } = await pageAssets();
  const paths = [...html().matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? '');
  expect(paths).toEqual(expect.arrayContaining(['/assets/icon.svg', '/assets/page.css', '/assets/page.js']));
  for (const path of paths) expect(find(path)?.body.length).toBeGreaterThan(100);
  expect(html()).not.toMatch(/<style|style="|<script(?! src)|\son\w+="/);
  expect(find('/assets/../package.json')).toBeUndefined();
  expect(find('/assets/page.js')?.type).toBe('text/javascript; charset=utf-8');
});

test('the page stays small: under 100 kB compressed, with no source of elkjs in it', async () => {
  const { scripts, css } = await buildPage();
  const texts = Object.values(scripts);
  for (const js of texts) expect(js).not.toMatch(/org\.eclipse\.elk|\beval\(|document\.write/);
  const sizes = [...texts, css].map(text => gzipSync(text).length);
  expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(100_000);
});

test('the list and the inbox load no code of the chart', async () => {
  const { scripts } = await buildPage();
  const loaded = new Set<string>();
  const load = (name: string): void => {
    if (loaded.has(name)) return;
    loaded.add(name);
    const imports = (scripts[name] ?? '').matchAll(/(?:from|import)"\.\/([^"]+)"/g);
    for (const [, next = ''] of imports) load(next);
  };
  load('page.js');
  const text = [...loaded].map(name => scripts[name]).join('');
  expect(text).toContain('/inbox');
  expect(text).not.toContain('interruptForApproval');
  expect(gzipSync(text).length).toBeLessThan(30_000);
  expect(Object.values(scripts).join('')).toContain('interruptForApproval');
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
  expect(js).toContain('state-resting-awaitingApproval');
  expect(js).not.toContain('<style');
  expect(css).toContain('.chart .face');
});
