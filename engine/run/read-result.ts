import { findResult } from '../../machines/tool-results.ts';
import type { BlobReference } from '../../protocol/item.ts';
import type { Store } from '../../protocol/store.ts';
import { isInsideCharacter } from '../../text/cut-text.ts';
import { loadRun } from '../journal/load-run.ts';
import { BLOB_PAGE_BYTES, RunBlobs } from '../journal/run-blobs.ts';

/** A result as the text of its JSON, large or not. All places are in bytes of UTF-8. */
export type ResultText = {
  isError: boolean;
  bytes: number;
  /** Only of one that is kept beside the journal. */
  digest?: string;
  /** Whole characters, up to `length` bytes, from `offset` on; `next` is where the next page begins. */
  page(offset: number, length: number): Promise<{ offset: number; text: string; next?: number }>;
  /** All of it, a part at a time. */
  pages(): AsyncIterable<Uint8Array>;
};

/**
 * The result of one of a run's calls, to be read in pages. Throws `run-unknown`, `call-unknown` for a call
 * without a result, and, when it is read, `result-missing` where the store has only its head and its tail.
 */
export async function openResult(store: Store, runId: string, callId: string): Promise<ResultText> {
  const { state } = await loadRun(store, runId);
  const { output, isError, blob } = findResult(state.context, callId);
  if (blob !== undefined) {
    const blobs = new RunBlobs({ store, host: {}, runId });
    const read = (offset: number, length: number) => blobs.read(blob, offset, length);
    return { ...textOf(isError, blob.bytes, read), digest: blob.digest, pages: () => blobs.pages(blob) };
  }
  const whole = new TextEncoder().encode(JSON.stringify(output));
  return textOf(isError, whole.length, async (offset, length) => whole.subarray(offset, offset + length));
}

/** What to call the text of a result, such as in `show`: its size, in bytes. */
export function describeSize({ bytes }: BlobReference): string {
  return bytes < 1024 * 1024 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

type Read = (offset: number, length: number) => Promise<Uint8Array>;

function textOf(isError: boolean, bytes: number, read: Read): ResultText {
  return {
    isError,
    bytes,
    async page(offset, length) {
      const found = await read(offset, length);
      const start = skipInside(found, 0);
      const isEnd = offset + found.length >= bytes;
      const end = isEnd ? found.length : Math.max(start, endOfWhole(found));
      const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(found.subarray(start, end));
      return { offset: offset + start, text, ...(isEnd ? {} : { next: offset + end }) };
    },
    async *pages() {
      for (let offset = 0; offset < bytes; offset += BLOB_PAGE_BYTES)
        yield await read(offset, BLOB_PAGE_BYTES);
    },
  };
}

function skipInside(bytes: Uint8Array, from: number): number {
  let place = from;
  while (isInsideCharacter(bytes[place])) place += 1;
  return place;
}

/** Where the last whole character ends. */
function endOfWhole(bytes: Uint8Array): number {
  let start = bytes.length - 1;
  while (start > 0 && isInsideCharacter(bytes[start])) start -= 1;
  return start + lengthOf(bytes[start] ?? 0) <= bytes.length ? bytes.length : start;
}

/** Of the character that begins with this byte. */
function lengthOf(first: number): number {
  if (first < 0xc0) return 1;
  if (first < 0xe0) return 2;
  return first < 0xf0 ? 3 : 4;
}
