import { assertUnredacted } from '../run-record.ts';
import { divideBlob, joinParts, startOfPart } from '../sql/blob-parts.ts';
import { escapeText } from '../sql/rows.ts';
import { locateRun } from './locate-run.ts';
import type { Statements } from './statements.ts';

/** The size of every part of a blob except the last. */
const PART_BYTES = 64 * 1024;

/**
 * Stores the text for a run; a blob that another run already has is only referenced. Throws `run-unknown`, and like
 * `assertUnredacted`.
 */
export function writeBlob(
  sql: Statements,
  runId: string,
  { digest, text, redactions }: { digest: string; text: string; redactions?: number | undefined },
): void {
  const position = locateRun(sql, runId);
  assertUnredacted(runId, position, redactions);
  const { run } = position;
  if (sql.isBlobKept.get(digest) === undefined)
    for (const { start, bytes, sum } of divideBlob(digest, text, PART_BYTES))
      sql.insertBlob.run(digest, start, bytes, sum);
  sql.referBlob.run(run, digest);
}

/** Reads a range of a blob. Throws `store-damaged` for a part that does not match its checksum. */
export function readBytes(
  sql: Statements,
  runId: string,
  digest: string,
  range: { offset: number; length: number },
): Uint8Array | undefined {
  if (sql.hasBlob.get(escapeText(runId), digest) === undefined) return undefined;
  const { offset, length } = range;
  const parts = sql.blobParts.all(digest, startOfPart(offset, PART_BYTES), offset + length);
  return joinParts(parts, { runId, digest }, { offset, length, size: PART_BYTES });
}
