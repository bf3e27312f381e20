import { systemHost } from '../engine/host/host.ts';
import { isOwnerDead } from '../engine/host/owner.ts';
import { type EngineError, invalidInput } from '../protocol/error.ts';
import { type Labels, readLabels } from '../protocol/listing/label.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { Store } from '../protocol/store.ts';
import { cancelToDelete } from './agent.ts';
import { deleteListed, tryDelete } from './delete-listed.ts';

/** Options of `deleteRuns`: `labels`, one or more, that a run has, beside others. `by`: who cancels those in progress. */
export type DeleteRunsOptions = { labels: Labels; by?: string };

const NAMES = optionNames<DeleteRunsOptions>()('labels by');

/**
 * Deletes all runs with these labels, such as all data of a user: their journals, large results, the runs of their
 * sub-agents, and the runs that continue them. Notes are kept by one label: exactly that label deletes them too; other
 * labels, or more, do not. Cancels what a process drives, and waits for it. Returns the ids of what was deleted. On SQLite
 * the file is written again, so that neither it nor its log has the bytes; it is also if there are no such runs.
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
  const deletion = { store, host: systemHost };
  return await deleteListed(
    { labels },
    {
      ...deletion,
      cancel: record => cancelToDelete(store, record, by),
      async remove(records, gone) {
        const ended = { before: Number.MAX_SAFE_INTEGER, labels, isDead: isOwnerDead };
        for (const runId of await store.prune(ended)) gone.add(runId);
        const errors: EngineError[] = [];
        for (const { runId } of records)
          if (!gone.has(runId)) errors.push(...(await tryDelete(deletion, runId, gone)));
        return errors;
      },
    },
  );
}
