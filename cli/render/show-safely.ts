import { stripVTControlCharacters } from 'node:util';

/** Control characters, invisible format characters and line separators; except joiners of emoji and letters. */
const UNSAFE = /(?![\u{200c}\u{200d}])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Escapes untrusted text for a terminal: characters that could move the cursor, change colors or reorder a
 * line are spelled out (`\x1b`, `\u{202e}`). So are line breaks and tabs, unless `lines` is set.
 */
export function showSafely(text: string, { lines = false }: { lines?: boolean } = {}): string {
  return text.replaceAll('\r\n', '\n').replace(UNSAFE, char => {
    if (lines && (char === '\n' || char === '\t')) return char;
    if (char === '\n') return '\\n';
    const code = char.codePointAt(0) ?? 0;
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`;
  });
}

/** Cuts a text to one line of `length` characters and notes how many were cut. */
export function shorten(text: string, length: number): string {
  const line = stripVTControlCharacters(text).replace(/\s+/gu, ' ').trim();
  if (line.length <= length) return line;
  return `${line.slice(0, length).trimEnd()}… (${line.length - length} more characters)`;
}

/** Characters that JSON does not escape and that a terminal or line reader may interpret. */
const UNESCAPED_BY_JSON = /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** Serializes a value as JSON that is safe to print. `indent` is the number of spaces per level; 0 gives one line. */
export function formatSafeJson(value: unknown, indent = 0): string {
  const escapeChar = (char: string) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return JSON.stringify(value, null, indent).replace(UNESCAPED_BY_JSON, escapeChar);
}
