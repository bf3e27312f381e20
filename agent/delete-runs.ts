import { POLL_MS, sleep, systemHost } from '../engine/host/host.ts';
import { isOwnerDead } from '../engine/host/owner.ts';
import { EngineError, invalidInput, isThrown } from '../protocol/error.ts';
import { type Labels, readLabels } from '../protocol/listing/label.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { isDriven, listAll, type RunRecord, type Store } from '../protocol/store.ts';
import { cancelToDelete } from './agent.ts';

/** Options of `deleteRuns`: `labels`, one or more, that a run has, beside others. `by`: who cancels those in progress. */
export type DeleteRunsOptions = { labels: Labels; by?: string };

const NAMES = optionNames<DeleteRunsOptions>()('labels by');

/** How long it goes on while nothing more can be deleted, in ms. */
const PATIENCE_MS = 60_000;

/**
 * Deletes all runs with these labels, such as all data of a user: their journals, large results, the runs of their
 * sub-agents, the runs that continue them, and the notes of the label. Cancels what a process drives, and waits for it.
 * Returns the ids of what was deleted. On SQLite the file is written again, so that neither it nor its log has the bytes; it
 * is also if there are no such runs.
 *
 * Throws `input-invalid` without labels; `refused` if a run still cannot be deleted a minute after the last; errors of the
 * store. What was deleted before stays deleted: call it again.
 *
 * @example
 * await deleteRuns(agent.store, { labels: { user: '7' } });
 */
export async function deleteRuns(store: Store, options: DeleteRunsOptions): Promise<string[]> {
  refuseUnknownOptions('deleteRuns', options, NAMES, 'input-invalid');
  const { labels, by } = options;
  if (Object.keys(readLabels(labels)).length === 0)
    throw invalidInput(
      'deleteRuns needs labels, such as { user: "7" }: without any, it would delete all runs.',
    );
  const gone = new Set<string>();
  for (let until = systemHost.now() + PATIENCE_MS, before = 0; ; await sleep(systemHost, POLL_MS)) {
    const ended = { before: Number.MAX_SAFE_INTEGER, labels, isDead: isOwnerDead };
    for (const runId of await store.prune(ended)) gone.add(runId);
    const left: RunRecord[] = [];
    for await (const record of listAll(store, { labels })) left.push(record);
    if (left.length === 0) break;
    const refusal = await deleteEach(store, left, { gone, by });
    if (gone.size > before) until = systemHost.now() + PATIENCE_MS;
    else if (systemHost.now() > until && refusal !== undefined) throw refusal;
    before = gone.size;
  }
  await store.purge?.();
  return [...gone];
}

/** Returns why a run was not deleted, if one was not. */
async function deleteEach(
  store: Store,
  records: readonly RunRecord[],
  { gone, by }: { gone: Set<string>; by: string | undefined },
): Promise<EngineError | undefined> {
  let refusal: EngineError | undefined;
  await Promise.all(findBusy(records).map(record => cancelToDelete(store, record, by)));
  for (const { runId } of records) {
    try {
      const deleted = await store.delete(runId, { cascade: true, isDead: isOwnerDead });
      for (const id of deleted) gone.add(id);
    } catch (error) {
      if (!isThrown(error, EngineError) || (error.code !== 'refused' && error.code !== 'run-unknown'))
        throw error;
      if (error.code === 'refused') refusal = error;
    }
  }
  return refusal;
}

/** The runs to cancel: those that are driven, or the run above that waits for them and would go on without them. */
function findBusy(records: readonly RunRecord[]): RunRecord[] {
  const open = new Map(
    records
      .filter(({ status }) => status === 'running' || status === 'waiting')
      .map(record => [record.runId, record]),
  );
  const topOf = (record: RunRecord): RunRecord => {
    const above = open.get(record.parent?.runId ?? '');
    return above === undefined ? record : topOf(above);
  };
  return [...new Set(records.filter(record => isDriven(record, systemHost.now(), isOwnerDead)).map(topOf))];
}
