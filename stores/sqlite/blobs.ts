import { EngineError } from '../../protocol/error.ts';
import { sumOfPart } from './checksum.ts';
import { locateRun } from './locate-run.ts';
import { escapeText } from './rows.ts';
import type { Statements } from './statements.ts';

/** How the bytes of a blob are divided: every part but the last is as long. */
const PART_BYTES = 64 * 1024;

/** Keeps the text for this run; one that another run has is only referred to. Throws `run-unknown`. */
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

/** The new run has what the other one has. */
export function shareBlobs(sql: Statements, run: number, { from }: { from: string }): void {
  sql.shareBlobs.run(run, escapeText(from));
}

/** Reads only the parts it needs. What is not as it was written is `store-damaged`. */
export function readBytes(
  sql: Statements,
  runId: string,
  digest: string,
  { offset, length }: { offset: number; length: number },
): Uint8Array | undefined {
  if (sql.hasBlob.get(escapeText(runId), digest) === undefined) return undefined;
  const first = offset - (offset % PART_BYTES);
  const parts = sql.blobParts.all(digest, first, offset + length).map(({ start, bytes, sum }, index) => {
    const isWhole = bytes instanceof Uint8Array && Number(start) === first + index * PART_BYTES;
    if (isWhole && sum === sumOfPart(digest, Number(start), bytes)) return bytes;
    throw new EngineError(
      'store-damaged',
      `The result ${digest} of run "${runId}" is not what was written. Restore the store from a backup.`,
      { runId, digest },
    );
  });
  return new Uint8Array(Buffer.concat(parts).subarray(offset - first, offset - first + length));
}
