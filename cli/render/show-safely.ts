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

/** What JSON leaves as it is and a terminal or a line reader may obey. */
const LEFT_BY_JSON = /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** A value as JSON that does nothing to a terminal; `indent` spaces for each level, else on one line. */
export function formatSafeJson(value: unknown, indent = 0): string {
  const spell = (char: string) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return JSON.stringify(value, null, indent).replace(LEFT_BY_JSON, spell);
}
