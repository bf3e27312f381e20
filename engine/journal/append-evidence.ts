import { EngineError } from '../../protocol/error.ts';
import type { BookkeepingEvent } from '../../protocol/event.ts';
import type { Store } from '../../protocol/store.ts';

/**
 * Appends an event that the chart ignores: a late outcome or a note. The run's state and status stay the same.
 * Returns the seq of the new entry, or `undefined` if the store has no such run.
 */
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
