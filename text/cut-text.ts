/** The maximum size of one result as sent to a model, in bytes of UTF-8. */
export const MODEL_READS_BYTES = 100_000;

const encoder = new TextEncoder();

export function utf8Length(text: string): number {
  return (
    globalThis.process?.getBuiltinModule?.('buffer').Buffer.byteLength(text) ?? encoder.encode(text).length
  );
}

/** Whether a text has at most `maxBytes` in UTF-8. Reads at most that much of it. */
export function fitsBytes(text: string, maxBytes: number): boolean {
  return text.length <= maxBytes && (text.length * 3 <= maxBytes || utf8Length(text) <= maxBytes);
}

/**
 * Returns the text if it fits into `maxBytes` of UTF-8; otherwise its head and its tail with a note between them, at
 * most `maxBytes` in total, or the note alone if only that fits. A cut text shares no memory with `text`.
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
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes.subarray(0, written));
}

/** Never splits a character. */
function takeTail(text: string, maxBytes: number): string {
  if (maxBytes === 0) return '';
  const bytes = encoder.encode(text.slice(-maxBytes));
  let start = Math.max(0, bytes.length - maxBytes);
  while (start < bytes.length && isInsideCharacter(bytes[start])) start += 1;
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes.subarray(start));
}

/** Whether the byte continues a UTF-8 character: such bytes begin with the bits 10. */
export function isInsideCharacter(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}
