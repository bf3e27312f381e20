import * as z from 'zod';
import { makeHash } from '../../protocol/content/hash-text.ts';
import { EngineError } from '../../protocol/error.ts';
import { blobsOf } from '../../protocol/event.ts';
import type { BlobReference } from '../../protocol/item.ts';
import type { Store } from '../../protocol/store.ts';
import { RunBlobs } from '../journal/run-blobs.ts';
import type { RunExport } from './export-run.ts';

/** A part of a large result, one line after an export; the parts of one result are in order. */
const partSchema = z.strictObject({ blob: z.string(), text: z.string() });
type ExportedPart = z.infer<typeof partSchema>;

/**
 * Yields the large results of the exported runs, each once and in parts, so that none is in memory in full. Throws
 * `result-missing` if the store lacks one.
 */
export async function* exportBlobs(
  store: Store,
  { chain = [], ...last }: RunExport,
): AsyncGenerator<ExportedPart> {
  const written = new Set<string>();
  for (const { run, journal } of [...chain, last]) {
    const blobs = new RunBlobs({ store, host: {}, runId: run.runId });
    for (const blob of journal.flatMap(({ event }) => blobsOf(event))) {
      if (written.has(blob.digest)) continue;
      written.add(blob.digest);
      const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
      for await (const page of blobs.pages(blob))
        yield { blob: blob.digest, text: decoder.decode(page, { stream: true }) };
    }
  }
}

/** Hashes the large results of an export while reading it; keeps no text. */
export class ExportedBlobs {
  readonly #hashes = new Map<string, ReturnType<typeof makeHash>>();
  readonly #digests = new Map<string, string>();

  /** Adds a line and returns its part. Throws `input-invalid` for another line; `name` names the export in the error. */
  take(line: string, name: string): ExportedPart {
    const part = readPart(line, name);
    const { blob, text } = part;
    const hash = this.#hashes.get(blob) ?? makeHash();
    this.#hashes.set(blob, hash);
    hash.update(new TextEncoder().encode(text));
    return part;
  }

  /** Returns the fault of a result that an entry refers to, worded to follow "entry n"; otherwise `null`. */
  findFault({ digest, bytes }: BlobReference): string | null {
    const found = this.#digestOf(digest);
    if (found === undefined) return `refers to a result of ${bytes} bytes that is missing from the export`;
    return found === digest ? null : 'refers to a result that was changed after the export: its hash differs';
  }

  #digestOf(blob: string): string | undefined {
    const digest = this.#digests.get(blob) ?? this.#hashes.get(blob)?.digest();
    if (digest !== undefined) this.#digests.set(blob, digest);
    return digest;
  }
}

function readPart(line: string, name: string): ExportedPart {
  try {
    return partSchema.parse(JSON.parse(line));
  } catch (cause) {
    const message = `${name} is not the export of a run: a line after its journal is not a part of a result. Export the run again.`;
    throw new EngineError('input-invalid', message, null, { cause });
  }
}
