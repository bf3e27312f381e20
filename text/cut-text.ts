/** What a model reads of one result at most, in bytes of UTF-8. */
export const MODEL_READS_BYTES = 100_000;

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** How long a text is in UTF-8. */
export function utf8Length(text: string): number {
  return (
    globalThis.process?.getBuiltinModule?.('buffer').Buffer.byteLength(text) ?? encoder.encode(text).length
  );
}

/** Whether a text is no longer than `maxBytes` in UTF-8. Looks at no more than that of it. */
export function fitsBytes(text: string, maxBytes: number): boolean {
  return text.length <= maxBytes && (text.length * 3 <= maxBytes || utf8Length(text) <= maxBytes);
}

/**
 * The text, or its head and its tail with a note of what was left out between them: `maxBytes` of UTF-8
 * together, or the note alone where not even that has room. Shares no memory with `text`.
 */
export function cutText(text: string, maxBytes: number): string {
  if (fitsBytes(text, maxBytes)) return text;
  const bytes = utf8Length(text);
  const room = Math.max(0, maxBytes - describeGap(bytes, bytes).length);
  const head = takeHead(text, Math.ceil(room / 2));
  const tail = takeTail(text, Math.floor(room / 2));
  const left = bytes - utf8Length(head) - utf8Length(tail);
  return head + describeGap(left, bytes) + tail;
}

function describeGap(left: number, bytes: number): string {
  return `\n[${left} of ${bytes} bytes were left out here. Ask for less at a time.]\n`;
}

function takeHead(text: string, maxBytes: number): string {
  const bytes = new Uint8Array(maxBytes);
  const { written } = encoder.encodeInto(text.slice(0, maxBytes), bytes);
  return decoder.decode(bytes.subarray(0, written));
}

/** A character that does not fit is left out whole. */
function takeTail(text: string, maxBytes: number): string {
  if (maxBytes === 0) return '';
  const bytes = encoder.encode(text.slice(-maxBytes));
  let start = Math.max(0, bytes.length - maxBytes);
  while (start < bytes.length && isInsideCharacter(bytes[start])) start += 1;
  return decoder.decode(bytes.subarray(start));
}

/** The second, third or fourth byte of a character begins with the bits 10. */
export function isInsideCharacter(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}
