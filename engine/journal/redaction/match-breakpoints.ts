import { matchesInput } from '../../../machines/breakpoints.ts';
import { callsOf, type JournalEntry, type RunEvent } from '../../../protocol/event.ts';
import type { JsonValue } from '../../../protocol/json.ts';

/** Notes in each `breakpoints.set` which calls meet it, so that the chart takes the same course without the values compared. */
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
