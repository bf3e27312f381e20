import { stripVTControlCharacters } from 'node:util';

/** Controls, invisible format characters and line separators, but for what joins emoji and letters. */
const UNSAFE = /(?![\u{200c}\u{200d}])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Text from models, tools and people as a terminal may have it: what could move the cursor, change
 * colours or reorder a line is spelled out (`\x1b`, `\u{202e}`). Line breaks and tabs too, unless `lines`.
 */
export function showSafely(text: string, { lines = false }: { lines?: boolean } = {}): string {
  return text.replaceAll('\r\n', '\n').replace(UNSAFE, char => {
    if (lines && (char === '\n' || char === '\t')) return char;
    if (char === '\n') return '\\n';
    const code = char.codePointAt(0) ?? 0;
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`;
  });
}

/** A text on one line of at most `length` characters, with a note of what was cut. */
export function shorten(text: string, length: number): string {
  const line = stripVTControlCharacters(text).replace(/\s+/gu, ' ').trim();
  if (line.length <= length) return line;
  return `${line.slice(0, length).trimEnd()}… (${line.length - length} more characters)`;
}
