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
