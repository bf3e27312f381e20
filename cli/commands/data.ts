import { existsSync } from 'node:fs';
import { isOwnerDead } from '../../engine/host/owner.ts';
import { EngineError } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { parseLabels } from '../../protocol/listing/label.ts';
import { backUpDatabase } from '../../stores/sqlite/back-up-database.ts';
import { EXIT } from '../exit-codes.ts';
import { readOneOf, readTime, type StoreOptions, storeFile, userName } from '../options.ts';
import { formatPath, isDatabase } from '../render/format.ts';
import { Output } from '../render/output.ts';
import { missingStore, withExistingStore, withRun } from '../store.ts';

/** Implements `agentchart delete`: deletes a run and lists all runs that were deleted with it. */
export async function deleteRun(id: string, options: StoreOptions & { cascade?: boolean }): Promise<number> {
  return await withRun(id, options, async ({ store, output, record: { runId } }) => {
    const deleted = await store.delete(runId, { cascade: options.cascade === true, isDead: isOwnerDead });
    if (output.json) output.data({ runId, deleted });
    else for (const gone of deleted) output.line(`Deleted ${gone}`);
    return EXIT.done;
  });
}

type PruneOptions = StoreOptions & { before: string; status?: string; label?: string[]; dryRun?: boolean };

/** Implements `agentchart prune`: deletes the runs that ended before a time, and says how many. */
export async function prune(options: PruneOptions): Promise<number> {
  const { dryRun = false } = options;
  const chosen = {
    before: readTime('--before', options.before),
    ...omitUndefined({
      status: readOneOf('--status', ['finished', 'failed', 'cancelled'], options.status),
      labels: options.label && parseLabels(options.label),
    }),
  };
  return await withExistingStore(options, async ({ store, output }) => {
    const pruned = await store.prune({ ...chosen, dryRun, isDead: isOwnerDead });
    if (output.json) output.data({ count: pruned.length, [dryRun ? 'wouldDelete' : 'deleted']: pruned });
    else
      output.line(
        `${dryRun ? 'Would delete' : 'Deleted'} ${pruned.length} ${pruned.length === 1 ? 'run' : 'runs'}`,
      );
    return EXIT.done;
  });
}

/** Implements `agentchart redact`. Also lists where else the redacted texts occur. */
export async function redact(
  id: string,
  { path: paths, by = userName(), ...options }: StoreOptions & { path: string[]; by?: string },
): Promise<number> {
  return await withRun(id, options, async ({ store, output, record: { runId } }) => {
    const redacted = await store.redact(runId, { paths, by });
    const { values, elsewhere } = redacted;
    if (output.json) output.data(redacted);
    else {
      output.line(`Redacted ${values} ${values === 1 ? 'value' : 'values'} in ${runId}`);
      if (elsewhere.length > 0) output.line('The same text also occurs in:');
      for (const pointer of elsewhere) output.line(`  ${pointer}`);
    }
    return EXIT.done;
  });
}

/** Implements `agentchart backup`: copies the store to a new file while other processes use it. */
export async function backUp(target: string, { db, json }: StoreOptions): Promise<number> {
  const output = new Output({ json: json === true });
  const file = storeFile(db);
  if (isDatabase(file))
    throw new EngineError(
      'input-invalid',
      'agentchart backup copies a SQLite file. Back up PostgreSQL with its own tools, such as pg_dump --schema=agentchart.',
    );
  if (!existsSync(file)) throw missingStore(file);
  const backup = await backUpDatabase(file, target);
  const { runs, bytes } = backup;
  if (output.json) output.data(backup);
  else
    output.line(
      `Backed up ${runs} ${runs === 1 ? 'run' : 'runs'} to ${formatPath(target)} (${(bytes / 1e6).toFixed(1)} MB)`,
    );
  return EXIT.done;
}
