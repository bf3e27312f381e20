/** A heading or a paragraph, without quote and list markers. `line` counts from 1. */
type MarkdownBlock =
  | { type: 'heading'; level: number; text: string; line: number }
  | { type: 'prose'; text: string; line: number };

/** `hasFrontMatterTitle`: whether the YAML between two `---` at the top has a `title`. */
type MarkdownDocument = { blocks: MarkdownBlock[]; lines: number; hasFrontMatterTitle: boolean };

type Fence = { mark: string; indent: number; quotes: number };

const FENCE = /^(?:(`{3,})[^`]*|(~{3,}).*)$/;
const RULE = /^([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const MARKER = /^([ \t]*)([-*+]|\d{1,9}[.)])([ \t]+|$)/;
const HEADING = /^(#{1,6})(?:[ \t]+(.*?))??(?:[ \t]+#+)?[ \t]*$/;
const HTML_HEADING = /^<h([1-6])\b[^>]*>(.*)<\/h\1>[ \t]*$/i;
const SKIPPED_HTML: [start: RegExp, end: RegExp][] = [
  [/^<!--/, /-->/],
  [/^<(?:pre|script|style|textarea)\b/i, /<\/(?:pre|script|style|textarea)>/i],
];

/** In characters. The rest of a longer line is ignored. */
const MAX_LINE = 10_000;
/** The longest heading or code fence, and the longest thematic break; longer lines are prose. */
const MAX_MARK = 2_000;
const MAX_RULE = 500;
/** The maximum of nested list markers on one line. */
const MAX_MARKERS = 100;

/**
 * Parses Markdown as GitHub does, as far as needed for links and headings: skips front matter, fenced and
 * indented code, HTML comments and `<pre>`; supports both heading forms, lists and quotes.
 */
export function readBlocks(text: string): MarkdownDocument {
  const lines = text.replace(/^\uFEFF/, '').split(/\r\n|\n|\r/);
  const body = endOfFrontMatter(lines);
  const blocks: MarkdownBlock[] = [];
  let prose: { lines: string[]; line: number; inItem: boolean } | null = null;
  let fence: Fence | null = null;
  let htmlEnd: RegExp | null = null;
  let itemIndent: number | null = null;
  let quotes = 0;

  const flush = () => {
    if (prose) blocks.push({ type: 'prose', text: prose.lines.join('\n'), line: prose.line });
    prose = null;
  };

  for (const [index, line] of lines.entries()) {
    if (index < body) continue;
    const quoted = stripQuotes(line.slice(0, MAX_LINE), fence?.quotes);
    let rest = quoted.rest;
    if (fence && quoted.quotes === fence.quotes) {
      if (closes(fence, rest)) fence = null;
      continue;
    }
    fence = null;
    if (htmlEnd) {
      if (htmlEnd.test(rest)) htmlEnd = null;
      continue;
    }
    if (quoted.quotes > quotes || rest.trim() === '') flush();
    if (quoted.quotes !== quotes) itemIndent = null;
    quotes = quoted.quotes;
    if (rest.trim() === '') continue;

    if (prose === null && itemIndent !== null && indentOf(rest) < itemIndent && !MARKER.test(rest)) {
      itemIndent = indentOf(rest) === 0 ? null : indentOf(rest);
    }
    if (prose === null && indentOf(rest) >= (itemIndent ?? 0) + 4) continue;

    let inItem = false;
    for (let markers = 0; markers < MAX_MARKERS; markers += 1) {
      const marker = isRule(rest.trim()) ? null : MARKER.exec(rest);
      if (marker === null) break;
      flush();
      inItem = true;
      itemIndent = indentOf(rest) + (marker[2]?.length ?? 0) + 1;
      rest = ' '.repeat(itemIndent) + rest.slice(marker[0].length);
      if (rest.trim() === '') break;
    }
    const content = rest.trim();
    if (content === '') continue;

    const isShort = content.length <= MAX_MARK;
    const opening = isShort ? FENCE.exec(content) : null;
    if (opening && (itemIndent !== null || indentOf(rest) < 4)) {
      flush();
      fence = { mark: opening[1] ?? opening[2] ?? '', indent: indentOf(rest), quotes };
      continue;
    }
    const skipped = SKIPPED_HTML.find(([start]) => start.test(content));
    if (skipped) {
      flush();
      if (!skipped[1].test(content)) htmlEnd = skipped[1];
      continue;
    }
    if (prose && !prose.inItem && /^(?:=+|-+)$/.test(content) && indentOf(rest) < 4) {
      const level = content.startsWith('=') ? 1 : 2;
      blocks.push({ type: 'heading', level, text: prose.lines.join(' ').trim(), line: prose.line });
      prose = null;
      continue;
    }
    if (isRule(content)) {
      flush();
      continue;
    }
    const heading = isShort ? (HEADING.exec(content) ?? HTML_HEADING.exec(content)) : null;
    if (heading && (itemIndent !== null || indentOf(rest) < 4)) {
      flush();
      const [, mark = '', title = ''] = heading;
      blocks.push({ type: 'heading', level: Number(mark) || mark.length, text: title, line: index + 1 });
      continue;
    }
    prose ??= { lines: [], line: index + 1, inItem };
    prose.lines.push(rest);
  }
  flush();
  const hasFrontMatterTitle = lines.slice(1, body).some(line => /^title:[ \t]*\S/.test(line));
  return { blocks, lines: countLines(lines), hasFrontMatterTitle };
}

function isRule(content: string): boolean {
  return content.length <= MAX_RULE && RULE.test(content);
}

function countLines(lines: string[]): number {
  return lines.at(-1) === '' ? lines.length - 1 : lines.length;
}

function endOfFrontMatter(lines: string[]): number {
  if (lines[0]?.trimEnd() !== '---') return 0;
  const end = lines.findIndex((line, index) => index > 0 && /^(?:---|\.\.\.)[ \t]*$/.test(line));
  return end === -1 ? 0 : end + 1;
}

function stripQuotes(line: string, most = Number.POSITIVE_INFINITY): { rest: string; quotes: number } {
  let rest = line;
  let quotes = 0;
  while (quotes < most) {
    const mark = /^ {0,3}> ?/.exec(rest);
    if (!mark) break;
    rest = rest.slice(mark[0].length);
    quotes += 1;
  }
  return { rest, quotes };
}

function closes(fence: Fence, line: string): boolean {
  const content = line.trim();
  const mark = fence.mark[0] ?? '';
  if (content.length < fence.mark.length || indentOf(line) >= fence.indent + 4) return false;
  return content === mark.repeat(content.length);
}

function indentOf(line: string): number {
  let columns = 0;
  for (const character of line) {
    if (character === ' ') columns += 1;
    else if (character === '\t') columns += 4 - (columns % 4);
    else break;
  }
  return columns;
}
