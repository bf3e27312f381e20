import type { BookkeepingEvent } from '../protocol/event.ts';
import type { Store } from '../protocol/store.ts';

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
