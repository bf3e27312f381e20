import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { checkDocuments } from '../../../examples/steward/check-documents.ts';

const FOLDER = fileURLToPath(new URL('../../../examples/steward/documents', import.meta.url));

function check(text: string, others: Record<string, string> = {}, paths: string[] = []) {
  const files = Object.entries({ ...others, 'doc.md': text }).map(([path, content]) => ({
    path,
    text: content,
  }));
  return checkDocuments(files, paths)
    .filter(finding => finding.path === 'doc.md')
    .map(finding => `${finding.line} ${finding.kind}`);
}

function checkBody(body: string, others: Record<string, string> = {}, paths: string[] = []) {
  return check(`# Title\n\n${body}\n`, others, paths);
}

test('the example documents have exactly their five planted defects', () => {
  const paths = readdirSync(FOLDER, { recursive: true }).map(path => String(path).replaceAll('\\', '/'));
  const files = paths
    .filter(path => path.endsWith('.md'))
    .map(path => ({ path, text: readFileSync(`${FOLDER}/${path}`, 'utf8') }));
  expect(checkDocuments(files, paths)).toEqual([
    { path: 'README.md', line: 12, kind: 'broken-link', message: '`desk/on-call.md` does not exist' },
    {
      path: 'desk/escalation.md',
      line: 1,
      kind: 'missing-title',
      message: 'the document has no title (a heading of the first level)',
    },
    {
      path: 'desk/handover.md',
      line: 10,
      kind: 'dead-anchor',
      message: '`../glossary.md#in-limbo` leads to a heading that `glossary.md` does not have',
    },
    {
      path: 'runbooks/stuck-request.md',
      line: 21,
      kind: 'broken-link',
      message: '`../desk/deciding.md` leads to `desk/deciding.md`, which does not exist',
    },
    {
      path: 'style-guide.md',
      line: 29,
      kind: 'duplicated-heading',
      message: '`Numbers and units` is the heading of line 11 too',
    },
  ]);
});

describe('a link is broken when its target is missing', () => {
  test.each([
    ['inline', '[a](none.md)'],
    ['in angle brackets', '[a](<no ne.md>)'],
    ['with a title', '[a](none.md "a title")'],
    ['an image', '![a](none.png)'],
    ['an image in a link', '[![a](none.png)](other.md)'],
    ['a link around an image', '[![a](pic.png)](none.md)'],
    ['HTML', '<a href="none.md">a</a>'],
    ['an HTML image', '<img alt="a" src="none.png">'],
    ['parentheses in the target', '[a](none_(1).md)'],
    ['from the root', '[a](/none.md)'],
    ['out of the folder', '[a](../other.md)'],
    ['with an anchor', '[a](none.md#title)'],
    ['an empty target', '[a]()'],
    ['a folder', '[a](none/)'],
    ['a reference without a definition', '[a][none]'],
    ['in a list', '- [a](none.md)'],
    ['in a quote', '> [a](none.md)'],
    ['in a heading', '## See [a](none.md)'],
    ['in a table', '| [a](none.md) |'],
    ['after an unclosed backtick', 'a ` and [a](none.md)'],
    ['only in case', '[a](Other.md)'],
  ])('%s', (_, body) => {
    expect(checkBody(body, { 'other.md': '# Other' }, ['pic.png'])).toEqual(['3 broken-link']);
  });

  test('a definition is reported at its own line, however often it is used', () => {
    expect(checkBody('[a][x], [x] and [X][]\n\n[x]: none.md')).toEqual(['5 broken-link']);
  });

  test('a link that spans lines is reported on its first line', () => {
    expect(checkBody('text\n[a\nb](none.md)')).toEqual(['4 broken-link']);
  });
});

describe('a link is fine when', () => {
  test.each([
    ['the file is there', '[a](sub/other.md)'],
    ['the path takes a detour', '[a](./sub/../sub/other.md)'],
    ['it has a query', '[a](sub/other.md?plain=1)'],
    ['it is percent-encoded', '[a](sub/two%20words.md)'],
    ['it is in angle brackets', '[a](<sub/two words.md> "title")'],
    ['it leads to a known folder', '[a](sub) and [b](sub/)'],
    ['it leads to a known file of another type', '[a](pic.png)'],
    ['it comes from the root', '[a](/sub/other.md)'],
    ['it leads to the web', '[a](https://example.org/none.md) <https://example.org> [b](//example.org/x)'],
    ['it is a mail address', '[a](mailto:a@example.org) <a@example.org>'],
    ['its definition has a title', "[a][b]\n\n[b]: <sub/other.md>\n  'title'"],
    ['its path is in another Unicode form', '[a](sub/cafe\u0301.md)'],
    ['it is code', '`[a](none.md)` and ``[`](none.md)``'],
    ['it is code over two lines', '`a\n[a](none.md)`'],
    ['it is in a comment', '<!-- [a](none.md) -->'],
    ['it is in a comment of many lines', '<!--\n\n[a](none.md)\n-->'],
    ['it is escaped', '\\[a](none.md) and [a\\](none.md)'],
    ['it is a footnote', 'a[^1]\n\n[^1]: none.md'],
    ['it is a checkbox', '- [ ] a\n- [x] b'],
    ['it is indexing', 'see list[0][1]'],
    ['it is in an indented block', 'text\n\n    [a](none.md)'],
    ['it is in a fence', '```md\n[a](none.md)\n```'],
    ['it is in a fence of tildes', '~~~\n[a](none.md)\n```\n[a](none.md)\n~~~'],
    ['it is in a longer fence', '````\n```\n[a](none.md)\n```\n````'],
    ['it is in a fence in a list', '- one\n\n  ```\n  [a](none.md)\n  ```'],
    ['it is in a fence in a quote', '> ```\n> [a](none.md)\n> ```'],
    ['it is in an unclosed fence', '```\n[a](none.md)'],
    ['it is in <pre>', '<pre>\n[a](none.md)\n\n</pre>'],
  ])('%s', (_, body) => {
    const others = { 'sub/other.md': '# Other', 'sub/two words.md': '# Two', 'sub/café.md': '# Café' };
    expect(checkBody(body, others, ['pic.png'])).toEqual([]);
  });

  test('it follows a code block that has ended', () => {
    expect(checkBody('```\ncode\n```\n[a](none.md)')).toEqual(['6 broken-link']);
    expect(checkBody('> ```\n> code\n\n[a](none.md)')).toEqual(['6 broken-link']);
  });
});

describe('an anchor is the one that GitHub generates for the heading', () => {
  test.each([
    ['## Hello, World!', 'hello-world'],
    ['## Hello, World! ##', 'hello-world'],
    ['Two words\n---------', 'two-words'],
    ['## `agentchart show`: the run', 'agentchart-show-the-run'],
    ['## snake_case stays', 'snake_case-stays'],
    ['## _emphasis_ goes', 'emphasis-goes'],
    ['## **Bold** and [a link](other.md)', 'bold-and-a-link'],
    ['## Überschrift & Größe', 'überschrift--größe'],
    ['## Überschrift', '%C3%BCberschrift'],
    ['## 日本語', '日本語'],
    ['## A — B', 'a--b'],
    ['## C++ / C#', 'c--c'],
    ['## Emoji 🎉 here', 'emoji--here'],
    ['## AT&amp;T', 'att'],
    ['## Twice\n\n## Twice', 'twice-1'],
    ['## Foo\n\n## Foo\n\n## Foo 1', 'foo-1-1'],
    ['<a id="own"></a>', 'own'],
    ['<a name="own"></a>', 'own'],
    ['text', 'title'],
    ['text', 'top'],
    ['> ## Quoted', 'quoted'],
    ['<h2 align="center">By hand</h2>', 'by-hand'],
  ])('%j has #%s', (heading, anchor) => {
    const others = { 'other.md': '# Other' };
    const kinds = checkBody(`[a](#${anchor})\n\n${heading}`, others);
    expect(kinds.filter(kind => kind.endsWith('dead-anchor'))).toEqual([]);
  });

  test.each([
    ['#hello-world', '## Hello'],
    ['#Hello', '## Hello'],
    ['#hello-1', '## Hello'],
    ['#comment', '```sh\n# comment\n```'],
    ['#hashtag', '#hashtag'],
  ])('%s is dead with %j', (link, body) => {
    expect(checkBody(`[a](${link})\n\n${body}`)).toEqual(['3 dead-anchor']);
  });

  test('another file’s anchors are looked up in that file', () => {
    const others = { 'sub/other.md': '# Other\n\n## Here\n\n[b](../doc.md#title) [c](../doc.md#gone)' };
    expect(checkBody('[a](sub/other.md#here) [b](sub/other.md#gone)', others)).toEqual(['3 dead-anchor']);
  });

  test('an anchor of a document that exists but was not read is not reported', () => {
    expect(checkBody('[a](unread.md#anything)', {}, ['unread.md'])).toEqual([]);
  });
});

describe('a title', () => {
  test.each([
    ['# Title'],
    ['Title\n====='],
    ['---\ntitle: Title\n---\n\ntext'],
    ['<h1 align="center">Title</h1>'],
    ['\uFEFF# Title'],
    ['text first\n\n# Title'],
  ])('%j is one', text => {
    expect(check(text)).toEqual([]);
  });

  test.each([[''], ['\r\n'], ['## Second level'], ['#Title'], ['```\n# code\n```'], ['# ']])(
    '%j has none',
    text => {
      expect(check(text)).toEqual(['1 missing-title']);
    },
  );
});

test('a heading repeated in another case is a duplicate; a heading repeated in another file is not', () => {
  const others = { 'other.md': '# Other\n\n## Setup' };
  expect(check('# A\n\n## Setup\n\n### `setup`\n\nSETUP\n---', others)).toEqual([
    '5 duplicated-heading',
    '7 duplicated-heading',
  ]);
});

test('CRLF does not change the findings', () => {
  const text = '# T\n\n```\n[a](none.md)\n```\n\nTwo\n---\n\n## Two\n\n[a](none.md)\n[b]: x\n';
  expect(check(text.replaceAll('\n', '\r\n'))).toEqual(check(text));
  expect(check(text)).toEqual(['10 duplicated-heading', '12 broken-link']);
});

test('the report itself is not checked, and may be a link target', () => {
  const files = [
    { path: 'REPORT.md', text: '[a](none.md)' },
    { path: 'sub/REPORT.md', text: '# Kept\n\n[a](none.md) [b](../REPORT.md)' },
  ];
  expect(checkDocuments(files).map(finding => finding.path)).toEqual(['sub/REPORT.md']);
});

test('for any text the check succeeds, is deterministic, and names only lines that exist', () => {
  const piece = fc.constantFrom(
    '[',
    ']',
    '(',
    ')',
    '<',
    '>',
    '`',
    '```',
    '~~~',
    '\\',
    '!',
    '#',
    '# a',
    '- ',
    '> ',
  );
  const more = fc.constantFrom(
    '\n',
    '\r\n',
    '    ',
    '<!--',
    '-->',
    '[x]: y',
    '"',
    '%',
    '---',
    'a.md',
    '😀',
    '\uD800',
  );
  const text = fc.array(fc.oneof(piece, more, fc.string()), { maxLength: 60 }).map(pieces => pieces.join(''));
  fc.assert(
    fc.property(text, content => {
      const files = [{ path: 'doc.md', text: content }];
      const findings = checkDocuments(files);
      expect(checkDocuments(files)).toEqual(findings);
      const lines = content.split(/\r\n|\n|\r/).length;
      for (const finding of findings) expect(finding.line).toBeLessThanOrEqual(lines);
      for (const finding of findings) expect(finding.message).not.toMatch(/[\r\n]/);
    }),
  );
});

test('a fence hides any body', () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('[a](none.md)', '# Twice', '``', '> x', '- y', '~~~', ''), { maxLength: 20 }),
      lines => {
        expect(checkBody(`\`\`\`\n${lines.join('\n')}\n\`\`\``)).toEqual([]);
      },
    ),
  );
});

test('a page of ten thousand brackets is checked quickly', () => {
  const body = `${'['.repeat(10_000)}${'](('.repeat(5_000)}${'`'.repeat(999)} ${'<!-- '.repeat(2_000)}`;
  const began = performance.now();
  checkBody(body);
  expect(performance.now() - began).toBeLessThan(2_000);
});
