import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Inline } from '../../visualizer/page/render/read-inline.ts';
import { type MarkdownBlock, readMarkdown } from '../../visualizer/page/render/read-markdown.ts';
import { randomCases } from '../support/sample.ts';

function writeInline(parts: readonly Inline[]): string {
  return parts
    .map(part => {
      if (typeof part === 'string') return part;
      if (part.kind === 'break') return '<br>';
      if (part.kind === 'code') return `<code>${part.text}</code>`;
      if (part.kind === 'link') return `<a ${part.href}>${writeInline(part.of)}</a>`;
      return `<${part.kind}>${writeInline(part.of)}</${part.kind}>`;
    })
    .join('');
}

function writeBlock(block: MarkdownBlock): string {
  switch (block.kind) {
    case 'heading':
      return `<h${block.level}>${writeInline(block.of)}</h${block.level}>`;
    case 'paragraph':
      return `<p>${writeInline(block.of)}</p>`;
    case 'code':
      return `<pre>${block.text}</pre>`;
    case 'quote':
      return `<quote>${block.of.map(writeBlock).join('')}</quote>`;
    case 'list': {
      const name = `${block.start === null ? 'ul' : `ol ${block.start}`}${block.isLoose ? ' loose' : ''}`;
      const items = block.items.map(({ checked, of }) => {
        const box = checked ? '[x]' : '[ ]';
        return `<li>${checked === null ? '' : box}${of.map(writeBlock).join('')}</li>`;
      });
      return `<${name}>${items.join('')}</>`;
    }
    case 'table':
      return `<table>${[block.head, ...block.rows].map(row => row.map(writeInline).join('|')).join('/')}</table>`;
    case 'rule':
      return '<hr>';
  }
}

const write = (text: string): string => readMarkdown(text).map(writeBlock).join('');

describe('Markdown is read', () => {
  test.each([
    ['# One\n## Two ##\n###### Six', '<h1>One</h1><h2>Two</h2><h6>Six</h6>'],
    ['Title\n=====\nSub\n---\nx', '<h1>Title</h1><h2>Sub</h2><p>x</p>'],
    ['a\nb  \nc\\\nd', '<p>a<br>b<br>c<br>d</p>'],
    ['***', '<hr>'],
    ['> q\n> r\nlazy\n\nafter', '<quote><p>q<br>r<br>lazy</p></quote><p>after</p>'],
    ['```js\nlet a;\n\n# b\n```\nc', '<pre>let a;\n\n# b</pre><p>c</p>'],
    ['````\n```\n````', '<pre>```</pre>'],
    ['~~~\nnot closed', '<pre>not closed</pre>'],
    ['    indented\n\n    code\nx', '<pre>indented\n\ncode</pre><p>x</p>'],
  ])('%j as blocks', (text, blocks) => expect(write(text)).toBe(blocks));

  test.each([
    ['- a\n- b', '<ul><li><p>a</p></li><li><p>b</p></li></>'],
    ['- a\n\n- b', '<ul loose><li><p>a</p></li><li><p>b</p></li></>'],
    [
      '- a\n  - b\n    1. c\n- d',
      '<ul><li><p>a</p><ul><li><p>b</p><ol 1><li><p>c</p></li></></li></></li><li><p>d</p></li></>',
    ],
    ['3. c\n4. d', '<ol 3><li><p>c</p></li><li><p>d</p></li></>'],
    ['- [x] done\n- [ ] open', '<ul><li>[x]<p>done</p></li><li>[ ]<p>open</p></li></>'],
    [
      '1. a\n\n   ```\n   code\n   ```\n2. b',
      '<ol 1 loose><li><p>a</p><pre>code</pre></li><li><p>b</p></li></>',
    ],
    ['para\n- a\n* b', '<p>para</p><ul><li><p>a</p></li></><ul><li><p>b</p></li></>'],
    ['In\n1986. A year', '<p>In<br>1986. A year</p>'],
    ['- a\nlazy', '<ul><li><p>a<br>lazy</p></li></>'],
  ])('%j as lists', (text, blocks) => expect(write(text)).toBe(blocks));

  test.each([
    ['| a | b |\n|---|:-:|\n| 1 | **2** |\n| 3 |\n\nx', '<table>a|b/1|<strong>2</strong>/3</table><p>x</p>'],
    ['a | b\n--|--\n`x\\|y` | more | cells', '<table>a|b/<code>x|y</code>|more|cells</table>'],
    ['Before:\n| a |\n|---|\n| 1 |', '<p>Before:</p><table>a/1</table>'],
    ['a | b\nno table', '<p>a | b<br>no table</p>'],
    ['| a | b |\n|---|', '<p>| a | b |<br>|---|</p>'],
  ])('%j as tables', (text, blocks) => expect(write(text)).toBe(blocks));

  test.each([
    ['**a** __b__ *c* _d_ ~~e~~', '<strong>a</strong> <strong>b</strong> <em>c</em> <em>d</em> <del>e</del>'],
    ['***a*** **b *c* d**', '<em><strong>a</strong></em> <strong>b <em>c</em> d</strong>'],
    ['`a * b` ``c ` d``', '<code>a * b</code> <code>c ` d</code>'],
    ['\\*a\\* C:\\dir', '*a* C:\\dir'],
    [
      '[a](https://x.test/b_(c) "t") <https://x.test>',
      '<a https://x.test/b_(c)>a</a> <a https://x.test>https://x.test</a>',
    ],
    ['[a][1], [1]\n\n[1]: https://x.test "t"', '<a https://x.test>a</a>, <a https://x.test>1</a>'],
    [
      'see https://x.test/a_b_c. (www.x.test)',
      'see <a https://x.test/a_b_c>https://x.test/a_b_c</a>. (<a http://www.x.test>www.x.test</a>)',
    ],
    ['[https://x.test](https://y.test)', '<a https://y.test>https://x.test</a>'],
    ['![a dot](https://x.test/dot.png)', '<a https://x.test/dot.png>a dot</a>'],
  ])('%j in a paragraph', (text, inline) => expect(write(text)).toBe(`<p>${inline}</p>`));

  test.each([
    'call_1_0 and snake_case_name',
    '2 * 3 * 4',
    '*not closed, **not closed, `not closed',
    '$5 and $6, ~5 to ~10, $$x$$',
    '[x] and [a](relative) and [a](javascript:alert(1)) and [a](data:text/html,x)',
    '![a](data:image/png;base64,AAAA)',
    '<b onclick="x">html</b> &amp; &lt;',
    '[^1]: a footnote',
    '#hash 1986.A -x',
  ])('%j as a text, whose marks stay', text => expect(write(text)).toBe(`<p>${text}</p>`));
});

const MARKS = fc.constantFrom(
  ...[
    '*',
    '**',
    '_',
    '~~',
    '`',
    '``',
    '[',
    ']',
    '](',
    ')',
    '](https://x.test)',
    '![',
    '<',
    'https://x.test',
    '\\',
  ],
  ...[
    '\n',
    '\n\n',
    '\n- ',
    '\n1. ',
    '\n> ',
    '\n    ',
    '\n```\n\n',
    '\n# ',
    '\n---\n',
    '|',
    '\n|-|-|\n',
    'a',
    ' ',
    '.',
  ],
);

const depthOf = (part: unknown): number => {
  if (typeof part !== 'object' || part === null) return 0;
  return 1 + Math.max(0, ...Object.values(part).map(depthOf));
};

/** The words that a person reads. */
function wordsOf(part: unknown): string {
  if (typeof part === 'string') return part;
  if (typeof part !== 'object' || part === null) return '';
  const { href: _, kind: __, ...rest } = part as Record<string, unknown>;
  return Object.values(rest).map(wordsOf).join('');
}

test('no word of a text is lost, doubled or moved, whatever marks are around it', () => {
  const piece = fc.oneof(MARKS, fc.stringMatching(/^[b-f]{1,3}$/));
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 60 }), pieces => {
      const text = pieces.join('');
      const onlyWords = (of: string) => of.replaceAll('https://x.test', '').replace(/[^b-f]/g, '');
      expect(onlyWords(wordsOf(readMarkdown(text)))).toBe(onlyWords(text));
    }),
    { numRuns: randomCases(200) },
  );
});

test.each(['[', '*a ', '**a*b', '`a ', '> ', '- ', '![a](', '|', '~a', '_', '\\'])(
  'a text of many %j is read, at most a few marks deep',
  piece => {
    const blocks = readMarkdown(piece.repeat(20_000));
    expect(depthOf(blocks)).toBeLessThan(80);
  },
);
