import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { globSync, readFileSync, statSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { serve } from '@hono/node-server';
import { serveStatic } from '@hono/node-server/serve-static';
import { Hono } from 'hono';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { linkToSite } from '../../.ci/link-to-site.ts';
import { errorPages } from '../support/docs/error-pages.ts';
import { TAKES_ALL } from '../support/sample.ts';
import { CHROMIUM, sharedChromium, WatchedPage } from '../support/visualizer/browser.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string): string => readFileSync(`${ROOT}${path}`, 'utf8');

test('contents.json has every page of docs/ once', () => {
  const named: string[] = JSON.parse(read('docs/contents.json')).flatMap(
    ({ pages }: { pages: string[] }) => pages,
  );
  const expand = (name: string) =>
    name.endsWith('*') ? globSync(`${name}.md`, { cwd: `${ROOT}docs` }) : [`${name}.md`];
  const generated = /^(?:api|errors|reference)\/|^security\.md$/;
  const written = globSync('**/*.md', { cwd: `${ROOT}docs` }).filter(
    file => file !== 'index.md' && !generated.test(file),
  );
  expect(
    named
      .flatMap(expand)
      .filter(file => !generated.test(file))
      .toSorted(),
  ).toEqual(written.toSorted());
});

test('each page of an error code refers to a heading that exists', () => {
  for (const [name, page] of errorPages()) {
    const [, file = '', anchor] = /^More: \[.+\]\(\.\.\/([^)#]+)#?([^)]*)\)/m.exec(page) ?? [];
    const headings = read(`docs/${file}`).match(/^#+ .+$/gm) ?? [];
    const slugs = headings.map(heading => heading.replace(/^#+ /, '').toLowerCase().replaceAll(' ', '-'));
    expect(anchor === '' || slugs.includes(anchor ?? ''), name).toBe(true);
  }
});

test('the peers on the site are those of the README', () => {
  const peers = /## Beside its peers\n([\s\S]*?)\n## /;
  expect(peers.exec(read('docs/why.md'))?.[1]).toBe(peers.exec(read('README.md'))?.[1]);
});

describe.runIf(TAKES_ALL)('the site', () => {
  const site = `${ROOT}test-results/site`;
  let server: ReturnType<typeof serve>;
  const address = (path: string) => `http://localhost:${(server.address() as AddressInfo).port}/${path}`;

  beforeAll(async () => {
    const build = ['node_modules/vitepress/bin/vitepress.js', 'build', 'docs', '--outDir', site];
    for (const args of [['test/support/docs/write-reference.ts'], build])
      await promisify(execFile)(process.execPath, args, { cwd: ROOT });
    server = serve({ fetch: new Hono().use(serveStatic({ root: site })).fetch, port: 0 });
    await once(server, 'listening');
  });
  afterAll(() => server.close());

  test('is built without a dead link, with llms.txt and each of its pages as Markdown', () => {
    const list = readFileSync(`${site}/llms.txt`, 'utf8');
    const links = [...list.matchAll(/^- \[.+?\]\(\/(.+?\.md)\): /gm)].map(([, link = '']) => link);
    expect(links.length).toBeGreaterThan(110);
    expect(list).not.toMatch(/\): ?$/m);
    const full = readFileSync(`${site}/llms-full.txt`, 'utf8');
    for (const link of links) expect(full).toContain(readFileSync(`${site}/${link}`, 'utf8').trim());
  });

  test('has every page that the README of a release links to, with its headings', () => {
    const named = JSON.parse(read('docs/contents.json')).flatMap(({ pages }: { pages: string[] }) => pages);
    const linked = linkToSite(read('README.md'), 'https://site.example', named);
    const links = [...linked.matchAll(/\]\(https:\/\/site\.example\/([^)#]*)#?([^)]*)\)/g)];
    expect(links.length).toBeGreaterThan(60);
    for (const [link, path = '', heading] of links) {
      const page = readFileSync(`${site}/${path.replace(/(?<=^|\/)$/, 'index.html')}`, 'utf8');
      expect(heading === '' || page.includes(`id="${heading}"`), link).toBe(true);
    }
  });

  test('is not heavier than it needs to be', () => {
    const bytes = (pattern: string) =>
      globSync(pattern, { cwd: site }).reduce((sum, file) => sum + statSync(`${site}/${file}`).size, 0);
    expect(bytes('**/*.*')).toBeLessThan(LARGEST_SITE);
  });

  describe.runIf(CHROMIUM !== undefined)('in a browser', () => {
    const looks = [390, 1440].flatMap(width =>
      (['light', 'dark'] as const).map(colorScheme => ({ width, colorScheme })),
    );
    const pages = [
      '',
      'guide/approvals.html',
      'guide/errors.html',
      'errors/key-missing.html',
      'reference/http.html',
    ];

    test.each(looks)('has no barriers, and asks no other host: $width px, $colorScheme', async look => {
      for (const path of pages) {
        const watched = await WatchedPage.open(await sharedChromium(), address(path), look);
        expect(await watched.findBarriers(), path).toEqual([]);
        expect(watched.problems).toEqual([]);
        await watched.close();
      }
    });

    test('a page loads little, and its search finds the page of an error code', async () => {
      const watched = await WatchedPage.open(await sharedChromium(), address(''));
      const { page } = watched;
      const bodies: Promise<Buffer>[] = [];
      page.on('response', response => bodies.push(response.body()));
      await page.goto(address('guide/approvals.html'), { waitUntil: 'networkidle' });
      const loaded = (await Promise.all(bodies)).reduce((sum, body) => sum + gzipSync(body).length, 0);
      expect(loaded).toBeLessThan(LARGEST_PAGE);
      await page.getByRole('button', { name: 'Search' }).click();
      await page.getByRole('searchbox').fill('lease-held');
      await page.locator('.VPLocalSearchBox a.result').first().click();
      await page.getByRole('heading', { name: 'lease-held', level: 1 }).waitFor();
      expect(page.url()).toContain('/errors/lease-held.html');
      expect(watched.problems).toEqual([]);
      await watched.close();
    });
  });
});

/** Bytes of all files, and of what a page loads, compressed. */
const LARGEST_SITE = 22_500_000;
const LARGEST_PAGE = 110_000;
