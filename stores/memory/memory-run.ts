import type { Progress, RunRecord } from '../../protocol/store.ts';
import type { Lease } from '../lease.ts';

/** A run in memory. */
export type Run = {
  record: Omit<RunRecord, 'seq' | 'epoch' | 'owner' | 'leaseUntil' | keyof Progress>;
  /** JSON of a `Progress`. */
  progress?: string | undefined;
  epoch: number;
  lease?: Lease;
  snapshot?: { seq: number; state: string };
  /** The journal begins after this entry; above 0 only for adopted runs. */
  base: number;
  journal: string[];
  /** State hashes by the seq of their entry. */
  stateHashes: Map<number, string>;
  /** UTF-8 by digest; a fork shares the bytes. */
  blobs: Map<string, Uint8Array>;
};

/** The `seq` of the last entry. */
export function lengthOf({ base, journal }: Run): number {
  return base + journal.length;
}
