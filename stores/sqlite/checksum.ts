import { createHash, hash } from 'node:crypto';
import type { Row } from './rows.ts';

/**
 * Checksums bind each entry of a journal to all before it and to the record of its run, so that an entry
 * that was changed, moved, repeated or brought from another run is told from one that was written. They
 * are against accidents: a person who can write the file can write them too. Status, epoch and time of the record
 * have none, because they follow from the journal: replay and export compare them (`check-record.ts`).
 */

/** How long a checksum is, in characters. */
export const SUM_CHARS = 16;

/** The first 64 bits of a SHA-256, in hex. */
function digest(text: string): string {
  return hash('sha256', text, 'hex').slice(0, SUM_CHARS);
}

/** What a journal's first entry is bound to: what is in the record of its run and never changes. */
export function sumOfRecord({ run_id, agent, created_at, base, continues }: Row): string {
  return digest(JSON.stringify([run_id, agent, created_at, base, continues]));
}

/**
 * Of an entry, given the checksum of what it stands behind: the entry before it, or the record. `stateHash` is what is
 * kept with it of the state there; JSON cannot end in one.
 */
export function sumOfEntry(before: string, text: string, stateHash = ''): string {
  return digest(before + text + stateHash);
}

/** Of a part of a blob. */
export function sumOfPart(blob: string, start: number, bytes: Uint8Array): string {
  return createHash('sha256').update(`${blob} ${start} `).update(bytes).digest('hex').slice(0, SUM_CHARS);
}

export function sumOfSnapshot(key: string, seq: number, text: string): string {
  return digest(`${key} ${seq} ${text}`);
}
