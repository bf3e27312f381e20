import * as z from 'zod';
import { EngineError } from '../../protocol/error.ts';
import { blobsOf } from '../../protocol/event.ts';
import type { BlobReference } from '../../protocol/item.ts';
import type { Store } from '../../protocol/store.ts';
import { makeHash } from '../journal/digest.ts';
import { RunBlobs } from '../journal/run-blobs.ts';
import type { RunExport } from './export-run.ts';

/** A part of a large result, as a line behind an export has it: those of one result stand in order. */
const partSchema = z.strictObject({ blob: z.string(), text: z.string() });
export type ExportedPart = z.infer<typeof partSchema>;

/**
 * The large results that the runs of an export name, each once, a part at a time: none is in memory whole.
 * Throws `result-missing` where the store has one not.
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

/** What an export carries of large results: only how long each is and what it hashes to is kept. */
export class ExportedBlobs {
  readonly #hashes = new Map<string, ReturnType<typeof makeHash>>();
  readonly #digests = new Map<string, string>();

  /** Throws `input-invalid` for a line that is no part; `name` is what the error calls the export. */
  take(line: string, name: string): void {
    const { blob, text } = readPart(line, name);
    const hash = this.#hashes.get(blob) ?? makeHash();
    this.#hashes.set(blob, hash);
    hash.update(new TextEncoder().encode(text));
  }

  /** What is wrong with a result that an entry names, as the rest of "entry n …". */
  findFault({ digest, bytes }: BlobReference): string | null {
    const found = this.#digestOf(digest);
    if (found === undefined) return `names a result of ${bytes} bytes that the export has not`;
    return found === digest ? null : 'names a result that is not the one that was exported: its hash differs';
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
    const message = `${name} is not the export of a run: what stands behind its journal is no part of a result. Export the run again.`;
    throw new EngineError('input-invalid', message, null, { cause });
  }
}
