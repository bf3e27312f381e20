import type { BookkeepingEvent } from '../protocol/event.ts';
import type { Store } from '../protocol/store.ts';

/** Appends what came after a run was given up or had ended; the chart knows nothing of it. */
export async function appendEvidence(store: Store, runId: string, event: BookkeepingEvent): Promise<void> {
  for (;;) {
    const record = await store.get(runId);
    if (record === undefined) return;
    const guard = { after: record.seq, input: true } as const;
    const result = await store.append(runId, guard, [event], record.status);
    if (result.type === 'appended') return;
  }
}
