import { findCall } from '../../machines/calls.ts';
import type { Context } from '../../machines/context.ts';
import { EngineError } from '../../protocol/error.ts';
import { blobsOf, type JournalEntry } from '../../protocol/event.ts';
import type { BlobReference } from '../../protocol/item.ts';
import { canonicalJson, type JsonValue } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import { cutText, fitsBytes, MODEL_READS_BYTES, utf8Length } from '../../text/cut-text.ts';
import type { Host } from '../driver/host.ts';
import type { Command } from '../run/command.ts';
import { hashParts, hashText } from './digest.ts';

/**
 * Large results: the journal and the state have their head and their tail, the store has the whole beside them.
 *
 * L1 A blob is durable before the event that names it. One that no event names is harmless: the process died
 *    in between, and the outcome is reported anew or asked about.
 * L2 A fold never needs a blob: what the model reads is in the event.
 * L3 A blob is read in pages, and what is made of one again is held against its digest.
 */

/** The longest JSON text of a result that is kept in the journal, in bytes, where neither tool nor agent says. */
export const MAX_RESULT_BYTES = 1024 * 1024;

/** How much of a blob is in memory at a time where it is not needed whole, in bytes. */
export const BLOB_PAGE_BYTES = 256 * 1024;

export type BlobStore = Pick<Store, 'get' | 'putBlob' | 'readBlob'>;

/** What an event says of an output. */
export type BoundOutput = { output: JsonValue; blob?: BlobReference };

/** The large results of one run and of the runs it continues. */
export class RunBlobs {
  readonly #store: BlobStore;
  readonly #host: Pick<Host, 'reach'>;
  readonly #runId: string;

  constructor({ store, host, runId }: { store: BlobStore; host: Pick<Host, 'reach'>; runId: string }) {
    this.#store = store;
    this.#host = host;
    this.#runId = runId;
  }

  /** Keeps the output whole, and gives what the journal has of it. `text` is what the model would read. */
  async put(output: JsonValue, text: string, maxBytes: number): Promise<BoundOutput> {
    const whole = canonicalJson(output);
    const blob = { digest: hashText(whole), bytes: utf8Length(whole) };
    const shown = cutText(text, Math.min(maxBytes, MODEL_READS_BYTES));
    this.#host.reach?.('blob.before');
    await this.#store.putBlob(this.#runId, blob.digest, whole);
    this.#host.reach?.('blob.after');
    return { output: shown, blob };
  }

  /** The output a blob was made of. Throws `result-missing`, and `store-damaged` where it is another one. */
  async load(blob: BlobReference): Promise<JsonValue> {
    const decoder = new TextDecoder();
    let text = '';
    for await (const page of this.pages(blob)) text += decoder.decode(page, { stream: true });
    if (hashText(text) === blob.digest) return JSON.parse(text);
    throw new EngineError(
      'store-damaged',
      `The result ${blob.digest} of run ${this.#runId} is not what was stored. Restore the store from a backup.`,
      { runId: this.#runId, digest: blob.digest },
    );
  }

  /** The bytes of a blob, a page at a time. Throws `result-missing`. */
  async *pages({ digest, bytes }: BlobReference): AsyncGenerator<Uint8Array, void> {
    const runId = await this.#find(digest);
    for (let offset = 0; offset < bytes; ) {
      const page = await this.#store.readBlob(runId, digest, offset, BLOB_PAGE_BYTES);
      if (page === undefined || page.length === 0) return;
      yield page;
      offset += page.length;
    }
  }

  /** Up to `length` bytes from `offset` on. Throws `result-missing`. */
  async read({ digest }: BlobReference, offset: number, length: number): Promise<Uint8Array> {
    const page = await this.#store.readBlob(await this.#find(digest), digest, offset, length);
    return page ?? new Uint8Array();
  }

  /** What is wrong with a blob of this run's own, as the rest of "entry n …"; `null` if nothing is. */
  async findFault(blob: BlobReference): Promise<string | null> {
    if ((await this.#store.readBlob(this.#runId, blob.digest, 0, 0)) === undefined)
      return `names a result of ${blob.bytes} bytes that the store has not`;
    const digest = await hashParts(this.pages(blob));
    return digest === blob.digest ? null : 'names a result that is not what was stored: its hash differs';
  }

  /** The run that has it: this one, or one that it continues. */
  async #find(digest: string): Promise<string> {
    for (let runId: string | undefined = this.#runId; runId !== undefined; ) {
      if ((await this.#store.readBlob(runId, digest, 0, 0)) !== undefined) return runId;
      runId = (await this.#store.get(runId))?.continues;
    }
    throw new EngineError(
      'result-missing',
      `This store does not have the whole result ${digest}: run ${this.#runId} came from another store, or the result was deleted. Its head and its tail are in the transcript.`,
      { runId: this.#runId, digest },
    );
  }
}

/** How long a result of this call may be in the journal. */
export function maxResultBytesOf(context: Context, callId: string): number {
  return findCall(context, callId)?.maxResultBytes ?? context.config.maxResultBytes ?? MAX_RESULT_BYTES;
}

/** What a person, a client or a sub-agent says, with an output that is too large kept beside the journal. */
export async function boundCommand<Submitted extends Command>(
  command: Submitted,
  context: Context,
  blobs: RunBlobs,
): Promise<Command> {
  const bound = async (callId: string, output: JsonValue): Promise<BoundOutput> => {
    const maxBytes = maxResultBytesOf(context, callId);
    const status = findCall(context, callId)?.status ?? 'settled';
    const text = JSON.stringify(output);
    if (status === 'settled' || fitsBytes(text, maxBytes)) return { output };
    return await blobs.put(output, typeof output === 'string' ? output : text, maxBytes);
  };
  switch (command.type) {
    case 'result.received':
      return { ...command, ...(await bound(command.callId, command.output)) };
    case 'approval.decided': {
      const { callId, decision } = command;
      if (decision.type !== 'answer') return command;
      return { ...command, decision: { ...decision, ...(await bound(callId, decision.output)) } };
    }
    case 'doubt.resolved': {
      const { callId, resolution } = command;
      if (resolution.type !== 'happened') return command;
      return { ...command, resolution: { ...resolution, ...(await bound(callId, resolution.output)) } };
    }
    default:
      return command;
  }
}

/** What `findFault` finds wrong with the large results that entries name, by the seq of the entry. */
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
