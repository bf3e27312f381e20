import { isOwnerDead } from '../../../engine/driver/owner.ts';
import { EXIT } from '../../exit-codes.ts';
import { findRun } from '../../find-run.ts';
import { storeFile, withExistingStore } from '../../open-store.ts';
import { Output } from '../../render/output.ts';

export type DeleteCommandOptions = { db?: string; json?: boolean; cascade?: boolean };

/** Implements `agentchart delete`: deletes a run and lists all runs that were deleted with it. */
export async function deleteRun(id: string, options: DeleteCommandOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  return await withExistingStore(storeFile(options.db), async store => {
    const { runId } = await findRun(store, id);
    const deleted = await store.delete(runId, { cascade: options.cascade === true, isDead: isOwnerDead });
    if (output.json) output.data({ runId, deleted });
    else for (const gone of deleted) output.line(`Deleted ${gone}`);
    return EXIT.done;
  });
}
