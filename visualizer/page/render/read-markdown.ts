import { type Inline, readInline } from './read-inline.ts';

export type MarkdownBlock =
  | { kind: 'heading'; level: number; of: Inline[] }
  | { kind: 'paragraph'; of: Inline[] }
  /** `info` is what follows its fence: a language. */
  | { kind: 'code'; info: string; text: string }
  | { kind: 'quote'; of: MarkdownBlock[] }
  | { kind: 'list'; start: number | null; isLoose: boolean; items: Item[] }
  | { kind: 'table'; head: Inline[][]; rows: Inline[][][] }
  | { kind: 'rule' };

type Item = { checked: boolean | null; of: MarkdownBlock[] };

type Fence = { mark: string; indent: number; info: string };

/** Deeper lists and quotes are shown as text. */
const DEEPEST = 8;

const FENCE = /^( {0,3})(`{3,}(?=[^`]*$)|~{3,})(.*)/;
const HEADING = /^ {0,3}(#{1,6})(?=\s|$)/;
const RULE = /^ {0,3}([-*_])(?: *\1){2,} *$/;
const QUOTE = /^ {0,3}> ?/;
const MARKER = /^( {0,3})([-+*]|(\d{1,9})[.)])(?:( {1,4})(?=\S)| |$)/;
const UNDERLINE = /^ {0,3}(=+|-+) *$/;
const DEFINITION =
  /^ {0,3}\[([^\]\\[]{1,200})\]: *<?(https?:\/\/[^\s<>]{1,2000})>?(?: +["'(][^\n]{0,500})?$/i;
const TASK = /^\[([ xX])\] +(?=\S)/;

/**
 * Reads Markdown as GitHub does for comments: tables, task lists, bare addresses, and every line break is one. HTML,
 * entities, footnotes and images are text.
 *
 * M1 The time it takes is linear in the text, whatever is in it.
 * M2 Marks that have no meaning stay: only the marks themselves are not in the result.
 * M3 The result is at most `DEEPEST` blocks deep.
 */
export function readMarkdown(text: string): MarkdownBlock[] {
  const lines = text.split(/\r?\n|\r/).map(expandTabs);
  return new Reader(lines).read(lines, 0);
}

/** Tabs before the text of a line are steps of four columns. */
function expandTabs(line: string): string {
  const indent = /^[ \t]*/.exec(line)?.[0] ?? '';
  if (!indent.includes('\t')) return line;
  let columns = 0;
  for (const char of indent) columns += char === '\t' ? 4 - (columns % 4) : 1;
  return ' '.repeat(columns) + line.slice(indent.length);
}

class Reader {
  readonly #targets: ReadonlyMap<string, string>;

  constructor(lines: readonly string[]) {
    const found = lines.flatMap(line => {
      const [, label, target] = DEFINITION.exec(line.replace(/^[ >]{0,20}/, '')) ?? [];
      return label === undefined || target === undefined ? [] : [[label.toLowerCase(), target] as const];
    });
    this.#targets = new Map(found.reverse());
  }

  read(lines: readonly string[], depth: number): MarkdownBlock[] {
    const blocks: MarkdownBlock[] = [];
    let at = 0;
    while (at < lines.length) {
      const line = lines[at] ?? '';
      const [block, end] =
        isBlank(line) || DEFINITION.test(line) ? [null, at + 1] : this.#block(lines, at, depth);
      if (block !== null) blocks.push(block);
      at = end;
    }
    return blocks;
  }

  #block(lines: readonly string[], at: number, depth: number): [MarkdownBlock, end: number] {
    const line = lines[at] ?? '';
    if (line.startsWith('    ')) return readIndented(lines, at);
    const fence = openFence(line);
    if (fence !== null) return readFenced(lines, at, fence);
    const [, marks] = HEADING.exec(line) ?? [];
    if (marks !== undefined) {
      const title = line
        .trim()
        .slice(marks.length)
        .replace(/(?:^|\s)#+$/, '');
      return [{ kind: 'heading', level: marks.length, of: this.#inline(title) }, at + 1];
    }
    if (RULE.test(line)) return [{ kind: 'rule' }, at + 1];
    if (depth < DEEPEST && QUOTE.test(line)) return this.#quote(lines, at, depth);
    if (depth < DEEPEST && MARKER.test(line)) return this.#list(lines, at, depth);
    return isTable(lines, at) ? this.#table(lines, at) : this.#paragraph(lines, at);
  }

  #quote(lines: readonly string[], at: number, depth: number): [MarkdownBlock, end: number] {
    const inner = takeInner(lines, at, line => (QUOTE.test(line) ? line.replace(QUOTE, '') : null));
    return [{ kind: 'quote', of: this.read(inner, depth + 1) }, at + inner.length];
  }

  #list(lines: readonly string[], from: number, depth: number): [MarkdownBlock, end: number] {
    const [, , first = '', start] = MARKER.exec(lines[from] ?? '') ?? [];
    const items: Item[] = [];
    let isLoose = false;
    let at = from;
    while (at < lines.length) {
      const line = lines[at] ?? '';
      const [all, indent = '', mark = '', , space = ' '] = MARKER.exec(line) ?? [];
      if (all === undefined || mark.at(-1) !== first.at(-1) || RULE.test(line)) break;
      const column = indent.length + mark.length + space.length;
      const inner = takeInner(lines, at, (text, place) => {
        if (place === at) return text.slice(column);
        if (isBlank(text)) return '';
        return text.startsWith(' '.repeat(column)) ? text.slice(column) : null;
      });
      at += inner.length;
      const last = inner.findLastIndex(text => !isBlank(text));
      isLoose ||=
        inner.slice(0, last).some(isBlank) || (last < inner.length - 1 && this.#goesOn(lines, at, first));
      items.push(this.#item(inner.slice(0, last + 1), depth));
    }
    return [{ kind: 'list', start: start === undefined ? null : Number(start), isLoose, items }, at];
  }

  #goesOn(lines: readonly string[], at: number, mark: string): boolean {
    return MARKER.exec(lines[at] ?? '')?.[2]?.at(-1) === mark.at(-1);
  }

  #item([first = '', ...others]: readonly string[], depth: number): Item {
    const [task, mark] = TASK.exec(first) ?? [''];
    const of = this.read([first.slice(task.length), ...others], depth + 1);
    return { checked: mark === undefined ? null : mark !== ' ', of };
  }

  #table(lines: readonly string[], at: number): [MarkdownBlock, end: number] {
    const end = endOf(lines, at + 2, line => isBlank(line) || beginsBlock(line));
    const [head = [], ...rows] = [lines[at] ?? '', ...lines.slice(at + 2, end)].map(line =>
      splitCells(line).map(cell => this.#inline(cell)),
    );
    return [{ kind: 'table', head, rows }, end];
  }

  #paragraph(lines: readonly string[], at: number): [MarkdownBlock, end: number] {
    const end = endOf(
      lines,
      at + 1,
      (line, place) => isBlank(line) || UNDERLINE.test(line) || interrupts(lines, place),
    );
    const of = this.#inline(
      lines
        .slice(at, end)
        .map(line => line.trim())
        .join('\n'),
    );
    const [, underline] = UNDERLINE.exec(lines[end] ?? '') ?? [];
    if (underline === undefined) return [{ kind: 'paragraph', of }, end];
    return [{ kind: 'heading', level: underline.startsWith('=') ? 1 : 2, of }, end + 1];
  }

  #inline(text: string): Inline[] {
    return readInline(text, this.#targets);
  }
}

function isBlank(line: string): boolean {
  return line.trim() === '';
}

/** The first place from `at` on that is the end, or the number of lines. */
function endOf(
  lines: readonly string[],
  at: number,
  isEnd: (line: string, place: number) => boolean,
): number {
  let end = at;
  while (end < lines.length && !isEnd(lines[end] ?? '', end)) end += 1;
  return end;
}

function openFence(line: string): Fence | null {
  const [, indent = '', mark, info = ''] = FENCE.exec(line) ?? [];
  return mark === undefined ? null : { mark, indent: indent.length, info: info.trim() };
}

function closes({ mark }: Fence, line: string): boolean {
  const text = line.trim();
  return (
    text.length >= mark.length && text === (mark[0] ?? '').repeat(text.length) && !line.startsWith('    ')
  );
}

/** A code block without a closing fence extends to the end of the text. */
function readFenced(lines: readonly string[], at: number, fence: Fence): [MarkdownBlock, end: number] {
  const end = endOf(lines, at + 1, line => closes(fence, line));
  const indent = new RegExp(`^ {0,${fence.indent}}`);
  const text = lines.slice(at + 1, end).map(line => line.replace(indent, ''));
  return [{ kind: 'code', info: fence.info, text: text.join('\n') }, end + 1];
}

function readIndented(lines: readonly string[], at: number): [MarkdownBlock, end: number] {
  const end = endOf(lines, at, line => !isBlank(line) && !line.startsWith('    '));
  const text = lines.slice(at, end).map(line => line.slice(4));
  return [{ kind: 'code', info: '', text: text.join('\n').trimEnd() }, end];
}

/**
 * The lines inside a quote or an item, from `at` on, without its marks. `strip` returns `null` for a line without
 * them, which belongs to it only if it continues a paragraph.
 */
function takeInner(
  lines: readonly string[],
  at: number,
  strip: (line: string, place: number) => string | null,
): string[] {
  const inner: string[] = [];
  let fence: Fence | null = null;
  for (let place = at; place < lines.length; place += 1) {
    const line = lines[place] ?? '';
    const stripped = strip(line, place);
    if (stripped === null) {
      const goesOn = fence === null && !isBlank(inner.at(-1) ?? '') && !isBlank(line) && !beginsBlock(line);
      if (!goesOn) break;
    } else if (fence === null) fence = openFence(stripped);
    else if (closes(fence, stripped)) fence = null;
    inner.push(stripped ?? line.trimStart());
  }
  return inner;
}

function beginsBlock(line: string): boolean {
  return [FENCE, HEADING, RULE, QUOTE, MARKER].some(mark => mark.test(line));
}

/** Whether a line ends the paragraph before it. Of ordered lists, only those that begin with 1 do. */
function interrupts(lines: readonly string[], at: number): boolean {
  const line = lines[at] ?? '';
  const [all, , , number = '1'] = MARKER.exec(line) ?? [];
  if (all !== undefined && !RULE.test(line)) return Number(number) === 1 && line.length > all.length;
  return beginsBlock(line) || isTable(lines, at);
}

function isTable(lines: readonly string[], at: number): boolean {
  const [head = '', marks = ''] = [lines[at], lines[at + 1]];
  if (!head.includes('|') || !/^[ :|-]+$/.test(marks) || !marks.includes('-')) return false;
  const columns = splitCells(marks);
  return columns.every(mark => /^:?-+:?$/.test(mark)) && splitCells(head).length === columns.length;
}

/** The cells of a row; `\|` is a character of a cell. */
function splitCells(row: string): string[] {
  const inner = row
    .trim()
    .replace(/^\|/, '')
    .replace(/(?<!\\)\|$/, '');
  return inner.split(/(?<!\\)\|/).map(cell => cell.trim().replaceAll('\\|', '|'));
}
