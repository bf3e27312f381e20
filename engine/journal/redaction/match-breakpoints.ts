import { matchesInput } from '../../../machines/breakpoints.ts';
import { callsOf, type JournalEntry, type RunEvent } from '../../../protocol/event.ts';
import type { JsonValue } from '../../../protocol/json.ts';

/**
 * Returns a journal in which every `breakpoints.set` says which of the run's calls meet its conditions. Its chart takes
 * the same course with and without the values that the conditions compare.
 */
export function withMatches(journal: readonly JournalEntry[]): JournalEntry[] {
  const inputs = new Map(journal.flatMap(({ event }) => inputsOf(event)));
  return journal.map(entry => {
    const { event } = entry;
    if (event.type !== 'breakpoints.set') return entry;
    const matched = event.breakpoints.flatMap(({ id, where }) => {
      if (where === undefined) return [];
      const known = event.matched?.[id];
      const digests = [...inputs].flatMap(([digest, input]) =>
        matchesInput(where, { digest, input }, known) ? [digest] : [],
      );
      return [[id, digests] as const];
    });
    if (matched.length === 0) return entry;
    return { ...entry, event: { ...event, matched: Object.fromEntries(matched) } };
  });
}

function inputsOf(event: RunEvent): [string, JsonValue][] {
  if (event.type !== 'approval.decided')
    return callsOf(event).map(({ digest, input }): [string, JsonValue] => [digest, input]);
  const { decision } = event;
  return decision.type === 'approve' && decision.input !== undefined && decision.editDigest !== undefined
    ? [[decision.editDigest, decision.input]]
    : [];
}
