import { EngineError } from '../../protocol/error.ts';
import { sumOfPart } from './checksum.ts';
import type { Row } from './rows.ts';

export function divideBlob(digest: string, text: string, size: number) {
  const bytes = Buffer.from(text);
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) => {
    const start = index * size;
    const part = bytes.subarray(start, start + size);
    return { start, bytes: part, sum: sumOfPart(digest, start, part) };
  });
}

export function startOfPart(offset: number, size: number): number {
  return offset - (offset % size);
}

/** `parts` begin with the one that has the byte at `offset`. Throws `store-damaged` for a missing or damaged part. */
export function joinParts(
  parts: readonly Row[],
  blob: { runId: string; digest: string },
  { offset, length, size }: { offset: number; length: number; size: number },
): Uint8Array {
  const { runId, digest } = blob;
  const first = startOfPart(offset, size);
  const pieces = parts.map(({ start, bytes, sum }, index) => {
    const isInPlace = bytes instanceof Uint8Array && Number(start) === first + index * size;
    if (isInPlace && sum === sumOfPart(digest, Number(start), bytes)) return bytes;
    throw new EngineError(
      'store-damaged',
      `The result ${digest} of run "${runId}" does not match its checksum. Restore the store from a backup.`,
      { runId, digest },
    );
  });
  return new Uint8Array(Buffer.concat(pieces).subarray(offset - first, offset - first + length));
}
