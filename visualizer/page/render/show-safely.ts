/** Control characters, invisible format characters and line separators, except the joiners in emoji and scripts. */
const UNSAFE = /(?!\u{200c}|\u{200d}|\n|\t)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Makes untrusted text safe to show: characters that could reorder or hide text, or control a terminal, are spelled
 * out (`␛`, `\u{202e}`). Markup needs no escaping because it becomes a text node.
 */
export function showSafely(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(UNSAFE, char => {
    const code = char.codePointAt(0) ?? 0;
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    if (code === 0x7f) return '␡';
    return code < 0x100 ? `\\x${code.toString(16)}` : `\\u{${code.toString(16)}}`;
  });
}

/** The text on one line of at most `length` characters, safe to show. */
export function shorten(text: string, length: number): string {
  const line = text
    .slice(0, length * 4)
    .replace(/\s+/gu, ' ')
    .trim();
  const cut = line.length > length || text.length > length * 4;
  return showSafely(cut ? `${cutText(line, length).trimEnd()}…` : line);
}

/** The first `length` characters, without splitting a surrogate pair. */
export function cutText(text: string, length: number): string {
  const last = text.charCodeAt(length - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? length - 1 : length);
}
