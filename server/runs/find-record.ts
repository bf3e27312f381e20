import type { RunRecord, Store } from '../../protocol/store.ts';
import { ApiError } from '../error-envelope.ts';

/** The record of a run. Throws `run-unknown`. */
export async function findRecord(store: Store, runId: string): Promise<RunRecord> {
  const record = await store.get(runId);
  if (record !== undefined) return record;
  throw new ApiError('run-unknown', 'There is no run of this id. GET /runs lists those there are.');
}
