import { titleOf } from '../../protocol/listing/label.ts';
import type { Redaction } from '../../protocol/store.ts';
import { encodeEvent } from '../journal-text.ts';

/** Entries to replace, by seq. */
export type Replacements = ReadonlyMap<number, { text: string; stateHash: string | undefined }>;

/** Returns the entries that a redaction replaces, and the new title if entry 1 is one of them. */
export function readRedaction({ entries }: Redaction): { texts: Replacements; title: string | undefined } {
  const first = entries.find(({ seq }) => seq === 1)?.event;
  return {
    texts: new Map(
      entries.map(({ seq, event, stateHash }) => [seq, { text: encodeEvent(event), stateHash }]),
    ),
    title: first?.type === 'run.started' ? titleOf(first) : undefined,
  };
}
