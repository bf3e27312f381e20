import { EngineError } from '../../protocol/error.ts';
import type { BookkeepingEvent } from '../../protocol/event.ts';
import type { Store } from '../../protocol/store.ts';

/**
 * Appends what the chart knows nothing of: what came after a run was given up or had ended, and notes.
 * Gives the entry's seq; `undefined` when there is no such run, or none any more.
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
    const result = await store.append(runId, guard, [event], { status: record.status }).catch(ignoreDeleted);
    if (result === undefined || result.type === 'appended') return result?.seq;
  }
}

function ignoreDeleted(error: unknown): undefined {
  if (!(error instanceof EngineError) || error.code !== 'run-unknown') throw error;
  return undefined;
}
