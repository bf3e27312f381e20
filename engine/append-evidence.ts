import type { BookkeepingEvent, JournalEntry } from '../protocol/event.ts';
import type { Store } from '../protocol/store.ts';
import { readJournal } from './read-journal.ts';
import type { LateOutcome } from './service.ts';

/**
 * Appends what the chart knows nothing of: what came after a run was given up or had ended, and notes.
 * Gives the entry's seq; `undefined` when there is no such run.
 */
export async function appendEvidence(
  store: Store,
  runId: string,
  event: BookkeepingEvent,
): Promise<number | undefined> {
  for (;;) {
    const record = await store.get(runId);
    if (record === undefined) return undefined;
    const guard = { after: record.seq, input: true } as const;
    const result = await store.append(runId, guard, [event], record.status);
    if (result.type === 'appended') return result.seq;
  }
}

/** Keeps what an attempt gave after its run had moved on, with what it contradicts. */
export async function appendLate(
  store: Store,
  runId: string,
  outcome: LateOutcome,
  at: number,
): Promise<void> {
  const contradicts = findContradiction(await readJournal(store, runId), outcome);
  const event = { type: 'tool.late', at, ...outcome } as const;
  await appendEvidence(store, runId, contradicts === null ? event : { ...event, contradicts });
}

/**
 * What a journal has recorded of a call that its late outcome contradicts, for people: that it did not happen,
 * or that another attempt did it. An error contradicts nothing.
 */
export function findContradiction(entries: readonly JournalEntry[], late: LateOutcome): string | null {
  if (late.isError) return null;
  let recorded: string | null = null;
  let attempt = 0;
  for (const { event } of entries) {
    if (!('callId' in event) || event.callId !== late.callId) continue;
    switch (event.type) {
      case 'tool.started':
        attempt = event.attempt;
        recorded =
          attempt > late.attempt ? `attempt ${attempt} was started, so it may have happened twice` : null;
        break;
      case 'tool.settled':
        if (attempt > late.attempt && !event.isError)
          recorded = `attempt ${attempt} succeeded, so it has happened twice`;
        else if (event.isError) recorded = `it is recorded as failed: ${JSON.stringify(event.output)}`;
        break;
      case 'doubt.resolved':
        if (event.resolution.type === 'failed')
          recorded = `${event.by ?? 'a person'} said that it failed: ${event.resolution.reason}`;
        break;
      default:
    }
  }
  return recorded;
}
