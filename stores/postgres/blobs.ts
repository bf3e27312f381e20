import { EngineError } from '../../protocol/error.ts';
import { sumOfPart } from '../checksum.ts';
import { escapeText, type Transaction } from '../rows.ts';

/** The size of every part of a blob except the last. */
const PART_BYTES = 256 * 1024;

/** Stores the text for a run; the same digest again changes nothing. */
export async function writeBlob(
  query: Transaction,
  schema: string,
  { run, digest, text }: { run: number; digest: string; text: string },
): Promise<void> {
  const bytes = Buffer.from(text);
  for (let start = 0; start < bytes.length; start += PART_BYTES) {
    const part = bytes.subarray(start, start + PART_BYTES);
    await query(
      `INSERT INTO ${schema}.blobs (run, digest, start, sum, bytes) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
      ...[run, digest, start, sumOfPart(digest, start, part), part],
    );
  }
}

/** Reads a range of a blob. Throws `store-damaged` for a part that does not match its checksum. */
export async function readBytes(
  query: Transaction,
  schema: string,
  { runId, digest, offset, length }: { runId: string; digest: string; offset: number; length: number },
): Promise<Uint8Array | undefined> {
  const first = offset - (offset % PART_BYTES);
  const rows = await query(
    `SELECT b.start, b.sum, b.bytes FROM ${schema}.runs r JOIN ${schema}.blobs b USING (run)
     WHERE r.run_id = $1 AND b.digest = $2 AND (b.start = 0 OR b.start >= $3 AND b.start < $4) ORDER BY b.start`,
    ...[escapeText(runId), digest, first, offset + length],
  );
  if (rows.length === 0) return undefined;
  const parts = rows.map(({ start, sum, bytes }) => {
    if (bytes instanceof Uint8Array && sum === sumOfPart(digest, Number(start), bytes))
      return { start: Number(start), bytes };
    throw new EngineError(
      'store-damaged',
      `The result ${digest} of run "${runId}" does not match its checksum. Restore the store from a backup.`,
      { runId, digest },
    );
  });
  const wanted = parts.filter(({ start }) => start >= first).map(({ bytes }) => bytes);
  return new Uint8Array(Buffer.concat(wanted).subarray(offset - first, offset - first + length));
}
