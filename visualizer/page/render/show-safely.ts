/** Controls, invisible format characters and line separators, but for what joins emoji and letters. */
const UNSAFE = /(?!\u{200c}|\u{200d}|\n|\t)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Text from models, tools and people as a page may show it: what could reorder it, hide in it or pass for
 * a terminal's command is spelled out (`␛`, `\u{202e}`). Markup needs nothing: it becomes a text node.
 */
export function showSafely(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(UNSAFE, char => {
    const code = char.codePointAt(0) ?? 0;
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    if (code === 0x7f) return '␡';
    return code < 0x100 ? `\\x${code.toString(16)}` : `\\u{${code.toString(16)}}`;
  });
}

/** One line of at most `length` characters. */
export function shorten(text: string, length: number): string {
  const line = text
    .slice(0, length * 4)
    .replace(/\s+/gu, ' ')
    .trim();
  const cut = line.length > length || text.length > length * 4;
  return showSafely(cut ? `${cutText(line, length).trimEnd()}…` : line);
}

/** The first `length` characters, never half of a surrogate pair. */
export function cutText(text: string, length: number): string {
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? length - 1 : length);
}
