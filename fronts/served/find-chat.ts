import type { Labels } from '../../protocol/listing/label.ts';
import { listAll, type RunRecord, type Store } from '../../protocol/store.ts';

/**
 * The current run of a chat, by its `chatLabels`; `undefined` for a new chat. Of its runs that `fit`, without those of sub-agents, that no
 * other run continues or was forked from, it is the one that changed last: a fork is as old as the run that it was made
 * from.
 */
export async function findLatestRun(
  store: Store,
  labels: Labels,
  fits: (record: RunRecord) => boolean = () => true,
): Promise<RunRecord | undefined> {
  const records: RunRecord[] = [];
  for await (const record of listAll(store, { labels }))
    if (record.parent === undefined && fits(record)) records.push(record);
  const left = new Set(records.flatMap(({ continues, forkOf }) => [continues, forkOf?.runId]));
  const ends = records.filter(({ runId }) => !left.has(runId));
  return ends.toSorted((one, other) => other.updatedAt - one.updatedAt)[0];
}
