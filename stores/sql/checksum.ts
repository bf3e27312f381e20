import { createHash, hash } from 'node:crypto';

/**
 * Checksums bind each journal entry to all earlier entries and to the record of its run. They detect entries that were
 * changed, moved, repeated or copied from another run. They protect against accidents only: anyone who can write the
 * file can also recompute them. Status, epoch and time of the record have no checksum, because they follow from the
 * journal: replay and export compare them (`compareRecord`).
 */

export const SUM_CHARS = 16;

/** The first 64 bits of a SHA-256, in hex. */
function digest(text: string): string {
  return hash('sha256', text, 'hex').slice(0, SUM_CHARS);
}

/** Returns the checksum of the immutable parts of a run's record, to which the first entry is bound. */
export function sumOfRecord({
  run_id,
  agent,
  created_at,
  base,
  continues,
}: Readonly<Record<string, unknown>>): string {
  return digest(JSON.stringify([run_id, agent, created_at, base, continues]));
}

/** `before`: the checksum of the entry before, or of the record. JSON cannot end like a `stateHash`: no two texts are alike. */
export function sumOfEntry(before: string, text: string, stateHash = ''): string {
  return digest(before + text + stateHash);
}

/** Returns the checksum of a part of a blob, which also binds it to the blob's digest and to its offset in bytes. */
export function sumOfPart(blob: string, start: number, bytes: Uint8Array): string {
  return createHash('sha256').update(`${blob} ${start} `).update(bytes).digest('hex').slice(0, SUM_CHARS);
}

/** Returns the checksum of a snapshot, bound to its run and entry. `key` is the run id as the database holds it. */
export function sumOfSnapshot(key: string, seq: number, text: string): string {
  return digest(`${key} ${seq} ${text}`);
}
