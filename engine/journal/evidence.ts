import { findCall } from '../../machines/calls.ts';
import type { ChartState } from '../../machines/step.ts';
import { EngineError } from '../../protocol/error.ts';
import type { BookkeepingEvent, CommandEvent, JournalEntry } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import type { Host } from '../host/host.ts';
import { trackRecord } from '../host/running-calls.ts';
import { readJournal } from './read-journal.ts';
import type { BoundOutput } from './run-blobs.ts';

/** The outcome of an attempt that ended after its run had moved on. */
export type LateOutcome = { callId: string; attempt: number; isError: boolean } & BoundOutput;

/** The outcomes of `once` calls among events that the run no longer accepts; `before` is the state they were first folded into. */
export function lateOutcomes(events: readonly CommandEvent[], before: ChartState): LateOutcome[] {
  return events.flatMap(event => {
    const call = event.type === 'tool.settled' ? findCall(before.context, event.callId) : undefined;
    if (event.type !== 'tool.settled' || call?.sideEffect !== 'once') return [];
    const { callId, output, isError, blob } = event;
    return { callId, attempt: call.attempt, output, ...omitUndefined({ blob }), isError };
  });
}

/** Journals in the background an outcome that came too late, and what it contradicts. Lost if the store fails. */
export function recordLate(
  { store, host }: { store: Store; host: Host },
  runId: string,
  outcome: LateOutcome,
): void {
  const at = host.now();
  const recorded = readJournal(store, runId)
    .then(journal => appendEvidence(store, runId, makeLateEvent(journal, outcome, at)))
    .catch(() => {});
  trackRecord(recorded);
}

function makeLateEvent(journal: readonly JournalEntry[], outcome: LateOutcome, at: number): BookkeepingEvent {
  const contradicts = findContradiction(journal, outcome);
  const event = { type: 'tool.late', at, ...outcome } as const;
  return contradicts === null ? event : { ...event, contradicts };
}

/** How a late success contradicts the journal, for people: the call failed, or another attempt began. `null` if it does not. */
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

/** Appends an event that the chart ignores. Returns the seq of its entry, or `undefined` if the store has no such run. */
export async function appendEvidence(
  store: Store,
  runId: string,
  event: BookkeepingEvent,
): Promise<number | undefined> {
  for (;;) {
    const record = await store.get(runId);
    if (record === undefined) return undefined;
    const { seq: after, redactions } = record;
    const guard = { after, redactions, input: true } as const;
    const result = await store
      .append(runId, guard, [event], { status: record.status })
      .catch(ignoreUnknownRun);
    if (result === undefined || result.type === 'appended') return result?.seq;
  }
}

function ignoreUnknownRun(error: unknown): undefined {
  if (!(error instanceof EngineError) || error.code !== 'run-unknown') throw error;
  return undefined;
}
