import { existsSync } from 'node:fs';
import { deleteRuns } from '../../agent/delete-runs.ts';
import { isOwnerDead } from '../../engine/host/owner.ts';
import { invalidInput } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Labels } from '../../protocol/listing/label.ts';
import type { Store } from '../../protocol/store.ts';
import { backUpDatabase } from '../../stores/sqlite/back-up-database.ts';
import { readNotes } from '../../tools/notes/folder.ts';
import type { Action } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { storeFile, userName } from '../options.ts';
import { formatPath, isDatabase, plural } from '../render/format.ts';
import { Output } from '../render/output.ts';
import { missingStore, withExistingStore, withRun } from '../store.ts';
import { openThread } from './threads.ts';

export const deleteRun: Action<'delete'> = ({
  run,
  cascade = false,
  label: labels,
  thread: id,
  by,
  ...options
}) => {
  if (id !== undefined) {
    if (run !== undefined || cascade) throw invalidInput('Give --thread without a RUN and --cascade.');
    return withExistingStore(options, async ({ store, output }) => {
      const thread = await openThread(store, id, labels);
      return tellDeleted(
        output,
        { thread: id, labels: thread.labels },
        await thread.delete({ by: by ?? userName() }),
      );
    });
  }
  if (run === undefined) {
    if (labels === undefined || cascade)
      throw invalidInput('Give a RUN, --thread, or --label without --cascade.');
    return withExistingStore(options, async ({ store, output, commands }) => {
      const deleted = await deleteRuns(store, { labels, by: by ?? userName() });
      const notesOf = await findNotes(store, labels);
      tellDeleted(output, { labels, ...(notesOf.length > 0 && { notesOf }) }, deleted);
      if (output.json) return EXIT.done;
      for (const label of notesOf) {
        const how = commands.of('delete', '--label', label);
        output.line(`The notes of ${label} stay. To delete them, with all runs of that label: ${how}`);
      }
      return EXIT.done;
    });
  }
  if (labels !== undefined || by !== undefined)
    throw invalidInput('Give --label and --by only without a RUN.');
  return withRun({ run, ...options }, async ({ store, output, record: { runId } }) =>
    tellDeleted(output, { runId }, await store.delete(runId, { cascade, isDead: isOwnerDead })),
  );
};

/** The labels whose notes the store has, each alone, as NAME=VALUE. */
async function findNotes(store: Store, labels: Labels): Promise<string[]> {
  const found: string[] = [];
  for (const [name, value] of Object.entries(labels))
    if ((await readNotes(store, { [name]: value })) !== undefined) found.push(`${name}=${value}`);
  return found;
}

function tellDeleted(output: Output, what: object, deleted: readonly string[]): number {
  if (output.json) output.data({ ...what, deleted });
  else for (const gone of deleted) output.line(`Deleted ${gone}`);
  if (!output.json && deleted.length === 0) output.line('No runs match.');
  return EXIT.done;
}

export const prune: Action<'prune'> = ({ before, status, label: labels, dryRun = false, ...options }) =>
  withExistingStore(options, async ({ store, output }) => {
    const chosen = { before, ...omitUndefined({ status, labels }) };
    const pruned = await store.prune({ ...chosen, dryRun, isDead: isOwnerDead });
    output.tell(
      { count: pruned.length, [dryRun ? 'wouldDelete' : 'deleted']: pruned },
      `${dryRun ? 'Would delete' : 'Deleted'} ${plural(pruned.length, 'run')}`,
    );
    return EXIT.done;
  });

/** Also lists where else the redacted texts occur. */
export const redact: Action<'redact'> = ({ path: paths, by = userName(), ...options }) =>
  withRun(options, async ({ store, output, record: { runId } }) => {
    const redacted = await store.redact(runId, { paths, by });
    const { values, elsewhere } = redacted;
    output.tell(redacted, `Redacted ${plural(values, 'value')} in ${runId}`);
    if (!output.json && elsewhere.length > 0)
      for (const line of ['The same text also occurs in:', ...elsewhere.map(pointer => `  ${pointer}`)])
        output.line(line);
    return EXIT.done;
  });

/** Copies the store while other processes use it. */
export const backup: Action<'backup'> = async ({ file: target, db, json }) => {
  const file = storeFile(db);
  if (isDatabase(file))
    throw invalidInput(
      'agentchart backup copies a SQLite file. Back up PostgreSQL with its own tools, such as pg_dump --schema=agentchart.',
    );
  if (!existsSync(file)) throw missingStore(file);
  const copied = await backUpDatabase(file, target);
  const { runs, bytes } = copied;
  new Output({ json }).tell(
    copied,
    `Backed up ${plural(runs, 'run')} to ${formatPath(target)} (${(bytes / 1e6).toFixed(1)} MB)`,
  );
  return EXIT.done;
};
