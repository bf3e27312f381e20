/** What a terminal shows two cells wide: East Asian wide and fullwidth characters, and emoji. */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{1f300}-\u{1f64f}\u{1f900}-\u{1f9ff}\u{20000}-\u{3fffd}]|\ufe0f|\p{Emoji_Presentation}/u;
const MARKS_ONLY = /^[\p{M}\u200c\u200d]+$/u;
const PLAIN = /^[ -~]*$/;

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });

/** How many cells of a terminal the text takes. It has no control characters. */
export function widthOf(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemes.segment(text)) width += widthOfOne(segment);
  return width;
}

function widthOfOne(grapheme: string): number {
  if (WIDE.test(grapheme)) return 2;
  return MARKS_ONLY.test(grapheme) ? 0 : 1;
}

/** The text in exactly `width` cells: cut with `…`, or padded. */
export function fitText(text: string, width: number): string {
  if (width <= 0) return '';
  const shown = widthOf(text) > width ? `${takeWidth(text, width - 1)}…` : text;
  return shown + ' '.repeat(Math.max(0, width - widthOf(shown)));
}

function takeWidth(text: string, width: number): string {
  const [line = ''] = wrapText(text, width);
  return widthOf(line) > width ? '' : line;
}

/** The text in lines of at most `width` cells, broken anywhere. A character that is wider stands alone. */
export function wrapText(text: string, width: number): string[] {
  if (width <= 0) return [''];
  if (PLAIN.test(text)) {
    const lines = [];
    for (let at = 0; at === 0 || at < text.length; at += width) lines.push(text.slice(at, at + width));
    return lines;
  }
  const lines = [''];
  let used = 0;
  for (const { segment } of graphemes.segment(text)) {
    const wide = widthOfOne(segment);
    if (used + wide > width && used > 0) {
      lines.push('');
      used = 0;
    }
    lines[lines.length - 1] += segment;
    used += wide;
  }
  return lines;
}

/** As `wrapText`, but between words where a line has a space. */
export function wrapWords(text: string, width: number): string[] {
  const lines = [];
  let rest = text;
  while (widthOf(rest) > width && width > 0) {
    const [line = ''] = wrapText(rest, width);
    const space = rest[line.length] === ' ' ? line.length : line.lastIndexOf(' ');
    const end = space > 0 ? space : line.length;
    lines.push(rest.slice(0, end));
    rest = rest.slice(end).trimStart();
  }
  return [...lines, rest];
}
