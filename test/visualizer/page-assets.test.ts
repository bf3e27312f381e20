import { expect, test } from 'vitest';
import { buildPage } from '../../visualizer/build-page.ts';
import { chartToSvg } from '../../visualizer/chart-svg.ts';
import { pageAssets } from '../../visualizer/page-assets.ts';

test('every file that the HTML references exists, and nothing is external or inline', async () => {
  const { html, find } = await pageAssets();
  const paths = [...html().matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? '');
  expect(paths).toEqual(['/assets/icon.svg', '/assets/page.css', '/assets/page.js']);
  for (const path of paths) expect(find(path)?.body.length).toBeGreaterThan(100);
  expect(html()).not.toMatch(/<style|style="|<script(?! src)|\son\w+="/);
  expect(find('/assets/../package.json')).toBeUndefined();
  expect(find('/assets/page.js')?.type).toBe('text/javascript; charset=utf-8');
});

test('the page stays small: one script under 200 kB, one style sheet under 30 kB, no source of elkjs in it', async () => {
  const { js, css } = await buildPage();
  expect(js.length).toBeLessThan(200_000);
  expect(css.length).toBeLessThan(30_000);
  expect(js).not.toMatch(/org\.eclipse\.elk|\beval\(|innerHTML|document\.write/);
});

test('the picture in the page has no inline styles', async () => {
  const { js, css } = await buildPage();
  expect(chartToSvg()).toContain('<style>');
  expect(js).toContain('state-resting-awaitingApproval');
  expect(js).not.toContain('<style');
  expect(css).toContain('.chart .face');
});
