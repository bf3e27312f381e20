import { EngineError } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import { isInsideCharacter, utf8Length } from '../../text/cut-text.ts';
import { loadRun } from '../journal/load-run.ts';
import { readRecordedResult } from '../journal/recorded-calls.ts';
import { BLOB_PAGE_BYTES, capturesOf, RunBlobs } from '../journal/run-blobs.ts';

/** The JSON text of a result, of any size. All offsets and lengths are in bytes of UTF-8. */
type ResultText = {
  isError: boolean;
  bytes: number;
  /** Only for a result that is stored as a blob. */
  digest?: string;
  /** Up to `length` bytes from `offset` on, without split characters; `offset` is where the text starts, `next` the next page's. */
  page(offset: number, length: number): Promise<{ offset: number; text: string; next?: number }>;
  pages(): AsyncGenerator<Uint8Array, void>;
};

/** Opens a result for reading in pages. Throws `run-unknown`, `call-unknown` without a result, and reading `result-missing`. */
export async function openResult(store: Store, runId: string, callId: string): Promise<ResultText> {
  const { state } = await loadRun(store, runId);
  const { output, isError, blob } = await readRecordedResult(store, state.context, callId);
  if (blob !== undefined) {
    const blobs = new RunBlobs({ store, host: {}, runId });
    const read = (offset: number, length: number) => blobs.read(blob, offset, length);
    return { ...textOf(isError, blob.bytes, read), digest: blob.digest, pages: () => blobs.pages(blob) };
  }
  const json = new TextEncoder().encode(JSON.stringify(output));
  return textOf(isError, json.length, async (offset, length) => json.subarray(offset, offset + length));
}

/** The captured requests of the model call that ended with entry `seq`, as pages of JSON. Throws `result-missing`. */
export async function openCapture(
  store: Store,
  runId: string,
  seq: number,
): Promise<AsyncGenerator<Uint8Array, void>> {
  const [entry] = Number.isSafeInteger(seq) && seq > 0 ? await store.read(runId, seq - 1, ONE_ENTRY) : [];
  const [blob] = entry === undefined ? [] : capturesOf(entry.event);
  const message = `The store has no captured requests for entry ${seq} of run "${runId}": its agent captures none (\`capture: 'requests'\`), or they were deleted.`;
  if (blob === undefined || (await store.readBlob(runId, blob.digest, 0, 0)) === undefined)
    throw new EngineError('result-missing', message, { runId });
  return new RunBlobs({ store, host: {}, runId }).pages(blob);
}

const ONE_ENTRY = { entries: 1, chars: Number.POSITIVE_INFINITY };

type Read = (offset: number, length: number) => Promise<Uint8Array>;

function textOf(isError: boolean, bytes: number, read: Read): ResultText {
  return {
    isError,
    bytes,
    async page(offset, length) {
      const found = await read(offset, length);
      let start = 0;
      while (isInsideCharacter(found[start])) start += 1;
      const isEnd = offset + found.length >= bytes;
      // Leaves out a character that the page has not to its end.
      const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
      const text = decoder.decode(found.subarray(start), { stream: !isEnd });
      const next = isEnd ? undefined : offset + start + utf8Length(text);
      return { offset: offset + start, text, ...omitUndefined({ next }) };
    },
    async *pages() {
      for (let offset = 0; offset < bytes; offset += BLOB_PAGE_BYTES)
        yield await read(offset, BLOB_PAGE_BYTES);
    },
  };
}
