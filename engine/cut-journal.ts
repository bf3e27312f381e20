import { EngineError } from '../protocol/error.ts';

/**
 * The entries up to `until`, counted from 1; all of them without one. Throws `input-invalid`, with the range
 * in its details, when it is no entry of the journal.
 */
export function cutJournal<Entry>(
  entries: readonly Entry[],
  until: number | undefined,
  runId: string,
): readonly Entry[] {
  if (until === undefined) return entries;
  const last = entries.length;
  if (Number.isInteger(until) && until >= 1 && until <= last) return entries.slice(0, until);
  throw new EngineError(
    'input-invalid',
    `Expected an entry of run ${runId} to replay it to, a whole number from 1 to ${last}; got ${until}.`,
    { runId, first: 1, last },
  );
}
