/** A link, image or definition; `target` is unescaped but not percent-decoded. */
export type MarkdownLink = { target: string; line: number };

/** `[text][label]` or `[label][]`, which need a definition; a label is normalised. */
export type ReferenceUse = { label: string; line: number };

type InlineContent = { links: MarkdownLink[]; uses: ReferenceUse[]; anchors: string[] };

const TITLE = String.raw`(?:"(?:[^"\\]|\\[\s\S])*"|'(?:[^'\\]|\\[\s\S])*'|\((?:[^()\\]|\\[\s\S])*\))`;
const ANGLED = String.raw`<((?:[^<>\n\\]|\\.)*)>`;
const SPACE = String.raw`[ \t]*\n?[ \t]*`;
const INLINE_TARGET = new RegExp(
  String.raw`${SPACE}(?:${ANGLED}|((?!<)(?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.|\([^\s()]*\))*\))*))(?:(?:[ \t]+|[ \t]*\n[ \t]*)${TITLE})?${SPACE}\)`,
  'y',
);
const DEFINITION = new RegExp(
  String.raw`^ *\[((?:[^[\]\\]|\\.)+)\]:${SPACE}(?:${ANGLED}|((?!<)\S+))(?:(?:[ \t]+|[ \t]*\n[ \t]*)${TITLE})?[ \t]*(?:\n|$)`,
);
const LABEL = /\[((?:[^[\]\\]|\\.)*)\]/y;
const CODE_MARK = /`+/y;
const AUTOLINK = /<(?:[A-Za-z][A-Za-z0-9+.-]*:[^\s<>]*|[^\s<>@]+@[^\s<>]+)>/y;
const TAG = /<([A-Za-z][A-Za-z0-9-]*)((?:[^<>"']|"[^"]*"|'[^']*')*)>/y;
const ATTRIBUTE = /(?<=\s)(href|src|id|name)\s*=\s*(?:"([^"]*)"|'([^']*)')/gi;

/** In characters. The rest of a longer paragraph is ignored: unclosed marks are searched to its end. */
const MAX_PARAGRAPH = 20_000;

/** Splits the link definitions from the beginning of a paragraph. Footnotes are not link definitions. */
export function takeDefinitions(
  text: string,
  line: number,
): { labels: string[]; links: MarkdownLink[]; rest: string; line: number } {
  const labels: string[] = [];
  const links: MarkdownLink[] = [];
  let rest = text;
  let at = line;
  for (let found = DEFINITION.exec(rest); found; found = DEFINITION.exec(rest)) {
    const [definition, label = '', angled, bare] = found;
    if (label.startsWith('^')) break;
    labels.push(normaliseLabel(label));
    links.push({ target: unescapeMarkdown(angled ?? bare ?? ''), line: at });
    rest = rest.slice(definition.length);
    at += definition.split('\n').length - 1;
  }
  return { labels, links, rest, line: at };
}

/** Finds the links and anchors in a paragraph that starts on `line`. Ignores code spans, comments and escapes. */
export function readInline(paragraph: string, line: number): InlineContent {
  const text = paragraph.slice(0, MAX_PARAGRAPH);
  const found: InlineContent = { links: [], uses: [], anchors: [] };
  const open: number[] = [];
  const lineAt = (offset: number) => line + text.slice(0, offset).split('\n').length - 1;
  const matchAt = (pattern: RegExp, offset: number) => {
    pattern.lastIndex = offset;
    return pattern.exec(text);
  };

  let at = 0;
  while (at < text.length) {
    const character = text[at];
    if (character === '\\') {
      at += 2;
    } else if (character === '`') {
      const mark = matchAt(CODE_MARK, at)?.[0] ?? character;
      at = endOfCodeSpan(text, at + mark.length, mark) ?? at + mark.length;
    } else if (character === '<') {
      at = readAngle(at) ?? at + 1;
    } else if (character === '[') {
      open.push(at);
      at += 1;
    } else if (character === ']') {
      const start = open.pop();
      at = (start === undefined ? null : readBracket(start, at)) ?? at + 1;
    } else {
      at += 1;
    }
  }
  return found;

  function readAngle(offset: number): number | null {
    if (text.startsWith('<!--', offset)) {
      const end = text.indexOf('-->', offset + 4);
      return end === -1 ? null : end + 3;
    }
    const autolink = matchAt(AUTOLINK, offset);
    if (autolink) return offset + autolink[0].length;
    const tag = matchAt(TAG, offset);
    if (!tag) return null;
    for (const [, name = '', double, single] of (tag[2] ?? '').matchAll(ATTRIBUTE)) {
      const value = double ?? single ?? '';
      const attribute = name.toLowerCase();
      if (attribute === 'href' || attribute === 'src')
        found.links.push({ target: value, line: lineAt(offset) });
      else if (attribute === 'id' || tag[1]?.toLowerCase() === 'a') found.anchors.push(value);
    }
    return offset + tag[0].length;
  }

  function readBracket(start: number, end: number): number | null {
    if (text[end + 1] === '(') {
      const target = matchAt(INLINE_TARGET, end + 2);
      if (!target) return null;
      found.links.push({ target: unescapeMarkdown(target[1] ?? target[2] ?? ''), line: lineAt(start) });
      return end + 2 + target[0].length;
    }
    if (text[end + 1] !== '[' || /[\p{L}\p{N}_)\]]/u.test(text[start - 1] ?? '')) return null;
    const label = matchAt(LABEL, end + 1);
    if (!label) return null;
    const written = label[1]?.trim() ? label[1] : text.slice(start + 1, end);
    if (!written.startsWith('^')) found.uses.push({ label: normaliseLabel(written), line: lineAt(start) });
    return end + 1 + label[0].length;
  }
}

function endOfCodeSpan(text: string, from: number, mark: string): number | null {
  let at = text.indexOf('`', from);
  while (at !== -1) {
    CODE_MARK.lastIndex = at;
    const run = CODE_MARK.exec(text)?.[0] ?? '`';
    if (run.length === mark.length) return at + run.length;
    at = text.indexOf('`', at + run.length);
  }
  return null;
}

function normaliseLabel(label: string): string {
  return label.trim().replace(/\s+/g, ' ').toLowerCase();
}

function unescapeMarkdown(target: string): string {
  return target.replace(/\\([!-/:-@[-`{-~])/g, '$1').replaceAll('&amp;', '&');
}
