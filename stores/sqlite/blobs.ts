import { EngineError } from '../../protocol/error.ts';
import { sumOfPart } from '../checksum.ts';
import { escapeText } from '../rows.ts';
import { locateRun } from './locate-run.ts';
import type { Statements } from './statements.ts';

/** The size of every part of a blob except the last. */
const PART_BYTES = 64 * 1024;

/** Stores the text for a run; a blob that another run already has is only referenced. Throws `run-unknown`. */
export function writeBlob(sql: Statements, runId: string, digest: string, text: string): void {
  const { run } = locateRun(sql, runId);
  if (sql.isBlobKept.get(digest) === undefined) writeParts(sql, digest, Buffer.from(text));
  sql.referBlob.run(run, digest);
}

function writeParts(sql: Statements, digest: string, bytes: Buffer): void {
  for (let start = 0; start < bytes.length; start += PART_BYTES) {
    const part = bytes.subarray(start, start + PART_BYTES);
    sql.insertBlob.run(digest, start, part, sumOfPart(digest, start, part));
  }
}

/** Gives the new run all blobs of another run. */
export function shareBlobs(sql: Statements, run: number, { from }: { from: string }): void {
  sql.shareBlobs.run(run, escapeText(from));
}

/** Reads a range of a blob. Throws `store-damaged` for a part that does not match its checksum. */
export function readBytes(
  sql: Statements,
  runId: string,
  digest: string,
  { offset, length }: { offset: number; length: number },
): Uint8Array | undefined {
  if (sql.hasBlob.get(escapeText(runId), digest) === undefined) return undefined;
  const first = offset - (offset % PART_BYTES);
  const parts = sql.blobParts.all(digest, first, offset + length).map(({ start, bytes, sum }, index) => {
    const isInPlace = bytes instanceof Uint8Array && Number(start) === first + index * PART_BYTES;
    if (isInPlace && sum === sumOfPart(digest, Number(start), bytes)) return bytes;
    throw new EngineError(
      'store-damaged',
      `The result ${digest} of run "${runId}" does not match its checksum. Restore the store from a backup.`,
      { runId, digest },
    );
  });
  return new Uint8Array(Buffer.concat(parts).subarray(offset - first, offset - first + length));
}
