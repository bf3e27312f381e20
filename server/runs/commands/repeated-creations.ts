import { readPage } from '../../../engine/journal/read-journal.ts';
import { assertRepeats, type RequestRecord, requestOf } from '../../../engine/log/request-ids.ts';
import type { Store } from '../../../protocol/store.ts';

/** A run that a request creates. Its id is derived from that of the request, so that a request creates one run. */
export type Creation = { store: Store; runId: string; request: RequestRecord | undefined };

/**
 * Whether an earlier request with the same id, which asked for the same, has created the run. Throws `request-reused`
 * if it asked for something else.
 */
export async function wasCreated({ store, runId, request }: Creation): Promise<boolean> {
  if (request === undefined || (await store.get(runId)) === undefined) return false;
  const [first] = await readPage(store, runId, 0, { entries: 1 });
  assertRepeats(request, first && requestOf(first.event));
  return true;
}
