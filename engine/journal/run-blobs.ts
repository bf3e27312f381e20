import { findCall } from '../../machines/calls.ts';
import type { Context } from '../../machines/context.ts';
import { hashParts } from '../../protocol/content/digest.ts';
import { hashText } from '../../protocol/content/hash-text.ts';
import { readContent } from '../../protocol/content/read-content.ts';
import { EngineError } from '../../protocol/error.ts';
import { blobsOf, type JournalEntry, type RunEvent } from '../../protocol/event.ts';
import type { BlobReference } from '../../protocol/item.ts';
import { canonicalJson, type JsonValue } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import { boundContent } from '../../text/bound-content.ts';
import { cutText, MODEL_READS_BYTES, utf8Length } from '../../text/cut-text.ts';
import type { Host } from '../host/host.ts';
import type { JournalStore } from './read-journal.ts';

/**
 * Blobs: large results. The journal and the state have only the head and the tail of such a result; the store has
 * the full text beside the journal.
 *
 * L1 A blob is durable before the event that names it. A blob that no event names is harmless: the process died in
 *    between, and the call is run again or is in doubt.
 * L2 A fold never needs a blob: what the model reads is in the event.
 * L3 Blobs are read in pages, and a reassembled blob is checked against its digest.
 */

/** Default for the largest result that is kept in the journal, in bytes of its JSON. */
const MAX_RESULT_BYTES = 1024 * 1024;

/** The page size for reading blobs, in bytes. */
export const BLOB_PAGE_BYTES = 256 * 1024;

type BlobStore = Pick<Store, 'get' | 'putBlob' | 'readBlob'>;

/** What a command is checked against: the journal of its run, and its large results. */
export type CommandStore = JournalStore & BlobStore;

/** An output as events have it: in full, or as much as the journal keeps with a reference to the blob. */
export type BoundOutput = { output: JsonValue; blob?: BlobReference };

/** `redactions`: how often the run had been redacted when its driver read it. */
type BlobOptions = { store: BlobStore; host: Pick<Host, 'reach'>; runId: string; redactions?: number };

export class RunBlobs {
  readonly #options: BlobOptions;

  constructor(options: BlobOptions) {
    this.#options = options;
  }

  /** Stores what repeats the transcript. Rejects as changed if the run was redacted since its driver read it. */
  async capture(value: JsonValue): Promise<BlobReference> {
    return await this.#put(value, this.#options.redactions);
  }

  async #put(value: JsonValue, redactions?: number): Promise<BlobReference> {
    const json = canonicalJson(value);
    const blob = { digest: hashText(json), bytes: utf8Length(json) };
    const { store, host, runId } = this.#options;
    host.reach?.('blob.before');
    await store.putBlob(runId, blob.digest, json, redactions);
    host.reach?.('blob.after');
    return blob;
  }

  /** Stores the full output. Returns what the journal keeps: the parts of content that fit, or the head and tail of `text`. */
  async put(output: JsonValue, text: string, maxBytes: number): Promise<BoundOutput> {
    const content = readContent(output);
    const kept = content
      ? boundContent(content, maxBytes)
      : cutText(text, Math.min(maxBytes, MODEL_READS_BYTES));
    return { output: kept, blob: await this.#put(output) };
  }

  /** The full output. Throws `result-missing`, or `store-damaged` if the blob does not match its digest. */
  async load(blob: BlobReference): Promise<JsonValue> {
    const decoder = new TextDecoder();
    let text = '';
    for await (const page of this.pages(blob)) text += decoder.decode(page, { stream: true });
    if (hashText(text) === blob.digest) return JSON.parse(text);
    throw new EngineError(
      'store-damaged',
      `Result ${blob.digest} of run ${this.#options.runId} is damaged: its hash differs. Restore the store from a backup.`,
      { runId: this.#options.runId, digest: blob.digest },
    );
  }

  /** The bytes of a blob, page by page. Throws `result-missing`. */
  async *pages({ digest, bytes }: BlobReference): AsyncGenerator<Uint8Array, void> {
    const runId = await this.#find(digest);
    for (let offset = 0; offset < bytes; ) {
      const page = await this.#options.store.readBlob(runId, digest, offset, BLOB_PAGE_BYTES);
      if (page === undefined || page.length === 0) return;
      yield page;
      offset += page.length;
    }
  }

  /** Up to `length` bytes of a blob from `offset` on; empty at the end. Throws `result-missing`. */
  async read({ digest }: BlobReference, offset: number, length: number): Promise<Uint8Array> {
    const page = await this.#options.store.readBlob(await this.#find(digest), digest, offset, length);
    return page ?? new Uint8Array();
  }

  /** What is wrong with a blob of this run, as the continuation of "entry n …"; `null` if it is intact. */
  async findFault(blob: BlobReference): Promise<string | null> {
    if ((await this.#options.store.readBlob(this.#options.runId, blob.digest, 0, 0)) === undefined)
      return `names a result of ${blob.bytes} bytes that is not in the store`;
    const digest = await hashParts(this.pages(blob));
    return digest === blob.digest ? null : 'names a result that is damaged: its hash differs';
  }

  /** The id of the run that has the blob: this run, or one that it continues. */
  async #find(digest: string): Promise<string> {
    for (let runId: string | undefined = this.#options.runId; runId !== undefined; ) {
      if ((await this.#options.store.readBlob(runId, digest, 0, 0)) !== undefined) return runId;
      runId = (await this.#options.store.get(runId))?.continues;
    }
    throw new EngineError(
      'result-missing',
      `This store does not have the full result ${digest}: run ${this.#options.runId} came from another store, or the result was deleted. The transcript has its head and tail.`,
      { runId: this.#options.runId, digest },
    );
  }
}

/** The largest result of this call that is kept in the journal, in bytes: set by its tool or its agent. */
export function maxResultBytesOf(context: Context, callId: string): number {
  return findCall(context, callId)?.maxResultBytes ?? context.config.maxResultBytes ?? MAX_RESULT_BYTES;
}

/** Returns the reference to the captured requests of a model call, if there are any; the store may not have them. */
export function capturesOf(event: RunEvent): BlobReference[] {
  return 'captured' in event && event.captured !== undefined ? [event.captured] : [];
}

/** Checks each blob that entries name with `findFault`. Returns the faults by the seq of the entry. */
export async function findBlobFaults(
  entries: readonly JournalEntry[],
  findFault: (blob: BlobReference) => string | null | Promise<string | null>,
): Promise<ReadonlyMap<number, string>> {
  const faults = new Map<number, string>();
  const checked = new Map<string, string | null>();
  for (const { seq, event } of entries) {
    for (const blob of blobsOf(event)) {
      const fault = checked.has(blob.digest) ? checked.get(blob.digest) : await findFault(blob);
      checked.set(blob.digest, fault ?? null);
      if (typeof fault === 'string') faults.set(seq, fault);
    }
  }
  return faults;
}
