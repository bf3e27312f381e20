import { divideBlob, joinParts, startOfPart } from '../sql/blob-parts.ts';
import { escapeText, type Transaction } from '../sql/rows.ts';

/** The size of every part of a blob except the last. */
const PART_BYTES = 256 * 1024;

/** Stores the text for a run; the same digest again changes nothing. */
export async function writeBlob(
  query: Transaction,
  schema: string,
  { run, digest, text }: { run: number; digest: string; text: string },
): Promise<void> {
  for (const { start, bytes, sum } of divideBlob(digest, text, PART_BYTES))
    await query(
      `INSERT INTO ${schema}.blobs (run, digest, start, sum, bytes) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
      ...[run, digest, start, sum, bytes],
    );
}

/** Reads a range of a blob. Throws `store-damaged` for a part that does not match its checksum. */
export async function readBytes(
  query: Transaction,
  schema: string,
  { runId, digest, offset, length }: { runId: string; digest: string; offset: number; length: number },
): Promise<Uint8Array | undefined> {
  const first = startOfPart(offset, PART_BYTES);
  const rows = await query(
    `SELECT b.start, b.sum, b.bytes FROM ${schema}.runs r JOIN ${schema}.blobs b USING (run)
     WHERE r.run_id = $1 AND b.digest = $2 AND (b.start = 0 OR b.start >= $3 AND b.start < $4) ORDER BY b.start`,
    ...[escapeText(runId), digest, first, offset + length],
  );
  if (rows.length === 0) return undefined;
  const parts = rows.filter(({ start }) => Number(start) >= first);
  return joinParts(parts, { runId, digest }, { offset, length, size: PART_BYTES });
}
