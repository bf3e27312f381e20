/** The site of these pages: `npm run docs:dev`, `npm run docs:build`. It loads nothing from other hosts. */
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';
import * as z from 'zod';
import { summarizePage } from './summarize-page.ts';

const DOCS = fileURLToPath(new URL('..', import.meta.url));
const read = (path: string) => readFileSync(`${DOCS}${path}`, 'utf8');

const { description, homepage } = z
  .object({ description: z.string(), homepage: z.exactOptional(z.url()) })
  .parse(JSON.parse(read('../package.json')));
const base = homepage === undefined ? '/' : new URL(`${homepage}/`).pathname.replace(/\/+$/, '/');

/** Of the skill: readers of the texts need its title first. */
const FRONT_MATTER = /^---\n[\s\S]*?\n---\n+/;

/** The sections of contents.json, each with its pages. */
const sections = z
  .array(z.object({ title: z.string(), pages: z.array(z.string()) }))
  .parse(JSON.parse(read('contents.json')))
  .map(({ title, pages }) => ({ title, pages: pages.flatMap(findPages) }));

function findPages(pattern: string) {
  const files = globSync(`${pattern}.md`, { cwd: DOCS }).sort();
  if (files.length === 0) throw new Error(`contents.json names ${pattern}, which no page of docs/ is.`);
  return files.map(file => {
    const source = read(file).replace(FRONT_MATTER, '').replaceAll('](../SECURITY.md', '](security.md');
    const title = /^# (.+)$/m.exec(source)?.[1] ?? file;
    return {
      file,
      source,
      text: title.replaceAll('`', ''),
      link: `/${file.replace(/(README)?\.md$/, '')}`,
    };
  });
}

const ERRORS = /^\/errors\/.+/;
const errors = new Set(
  sections.flatMap(({ pages }) => pages.map(({ link }) => link)).filter(link => ERRORS.test(link)),
);

const listPages = ({ title, pages }: (typeof sections)[number]) => ({
  text: title,
  collapsed: true,
  items: pages.map(({ text, link }) => ({ text, link })),
});

/** `llms.txt`: the pages by section; `llms-full.txt`: all of their text; and each page as Markdown. */
function writeTexts(folder: string): void {
  const head = `# Agentchart\n\n> ${description}`;
  const list = sections.map(({ title, pages }) =>
    [
      `## ${title}`,
      pages
        .map(({ file, text, source }) => `- [${text}](${base}${file}): ${summarizePage(source)}`)
        .join('\n'),
    ].join('\n\n'),
  );
  writeFileSync(`${folder}/llms.txt`, `${[head, ...list].join('\n\n')}\n`);
  const pages = sections.flatMap(section => section.pages);
  writeFileSync(`${folder}/llms-full.txt`, [head, ...pages.map(({ source }) => source.trim())].join('\n\n'));
  for (const { file, source } of pages) {
    mkdirSync(dirname(`${folder}/${file}`), { recursive: true });
    writeFileSync(`${folder}/${file}`, source);
  }
}

/** Code in the few colors of theme/style.css, which follow the color scheme: two themes would double the pages. */
const CODE_THEME = {
  name: 'agentchart',
  settings: [
    { settings: { foreground: 'var(--code-text)', background: 'var(--code-background)' } },
    { scope: ['comment', 'punctuation.definition.comment'], settings: { foreground: 'var(--code-comment)' } },
    { scope: ['string', 'constant'], settings: { foreground: 'var(--code-value)' } },
    { scope: ['keyword', 'storage'], settings: { foreground: 'var(--code-keyword)' } },
    { scope: ['entity.name.function', 'support.function'], settings: { foreground: 'var(--code-name)' } },
  ],
};

/** The anchors that GitHub gives headings. */
function slugify(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}

export default defineConfig({
  title: 'Agentchart',
  description,
  base,
  lang: 'en',
  head: [
    [
      'link',
      { rel: 'icon', href: `data:image/svg+xml,${encodeURIComponent(read('../visualizer/page/icon.svg'))}` },
    ],
  ],
  // The next page loads when it is opened.
  router: { prefetchLinks: false },
  rewrites: { 'decisions/README.md': 'decisions/index.md' },
  ignoreDeadLinks: 'localhostLinks',
  markdown: {
    theme: CODE_THEME,
    anchor: { slugify },
    config(md) {
      const code = md.renderer.rules.code_inline;
      md.renderer.rules.code_inline = (tokens, at, options, env, self) => {
        const shown = code?.(tokens, at, options, env, self) ?? '';
        const link = `/errors/${tokens[at]?.content}`;
        const isError = env.relativePath === 'guide/errors.md' && errors.has(link);
        return isError ? `<a href="${base}${link.slice(1)}.html">${shown}</a>` : shown;
      };
      // SECURITY.md is beside docs/ for readers of the sources, and a page here.
      md.core.ruler.push('security-page', state => {
        for (const { children } of state.tokens)
          for (const token of children ?? []) {
            const href = token.attrGet('href');
            if (href?.startsWith('../SECURITY.md'))
              token.attrSet('href', href.replace('../SECURITY', './security'));
          }
      });
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    nav: sections.map(({ title, pages }) => ({
      text: title,
      link: pages[0]?.link ?? '/',
      activeMatch: `^(${[...new Set(pages.map(({ link }) => link.replace(ERRORS, '/errors/')))].join('|')})`,
    })),
    // Each page has all of it, so that only pages of errors list them.
    sidebar: {
      '/errors/': sections.filter(({ pages }) => pages.some(({ link }) => ERRORS.test(link))).map(listPages),
      '/': sections.map(({ title, pages }) =>
        listPages({ title, pages: pages.filter(({ link }) => !ERRORS.test(link)) }),
      ),
    },
    outline: [2, 3],
    docFooter: { prev: false, next: false },
  },
  buildEnd: ({ outDir }) => writeTexts(outDir),
});
