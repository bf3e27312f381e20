import type { DeleteOptions, PruneOptions } from '../../protocol/store.ts';
import { findAwaited, type Kinship, planDeletion } from '../plan-deletion.ts';
import { planPruning } from '../prune.ts';
import { escapeText, type Row, unescapeText } from '../rows.ts';
import { describeRun, locateRun } from './locate-run.ts';
import type { Statements } from './statements.ts';

/** Deletes the runs that `planDeletion` lists and returns their ids. Throws the errors of `planDeletion`. */
export function removeRuns(sql: Statements, runId: string, options: DeleteOptions): string[] {
  return dropAll(sql, planDeletion(makeKinship(sql), runId, options));
}

/** Deletes the runs that `planPruning` lists and returns their ids. */
export function prunePage(
  sql: Statements,
  runIds: readonly string[],
  gone: ReadonlySet<string>,
  options: PruneOptions,
): string[] {
  return dropAll(sql, planPruning(makeKinship(sql), runIds, gone, options));
}

function dropAll(sql: Statements, doomed: string[]): string[] {
  if (doomed.length > 0) sql.raiseFloor.run();
  for (const id of doomed) {
    const { run } = locateRun(sql, id);
    for (const { digest } of sql.blobsOfRun.all(run)) dropBlob(sql, run, String(digest));
    for (const remove of [sql.dropLabels, sql.dropSnapshot, sql.dropDeltas]) remove.run(run);
    sql.dropRows.run(run, run);
    sql.dropRun.run(run);
    sql.dropJournal.run(escapeText(id));
  }
  return doomed;
}

/** Removes a run's reference to a blob, and the blob itself if no other run refers to it. */
export function dropBlob(sql: Statements, run: number, digest: string): void {
  sql.unreferBlob.run(run, digest);
  if (sql.isBlobKept.get(digest) === undefined) sql.dropBlob.run(digest);
}

/** Returns the relations between the runs of the database. */
export function makeKinship(sql: Statements): Kinship {
  const idsOf = (rows: readonly Row[]) => rows.map(({ run_id }) => unescapeText(String(run_id)));
  return {
    find(runId) {
      const record = describeRun(sql, runId);
      if (record === undefined) return undefined;
      const parent = sql.parent.get(escapeText(runId))?.parent;
      return { record, parent: typeof parent === 'string' ? unescapeText(parent) : undefined };
    },
    childrenOf: runId => idsOf(sql.children.all(escapeText(runId))),
    continuationsOf: runId => idsOf(sql.continuations.all(escapeText(runId))),
    *waiting() {
      const texts = new Map<string, string[]>();
      for (const { run_id, json } of sql.suspensions.all()) {
        const runId = unescapeText(String(run_id));
        texts.set(runId, [...(texts.get(runId) ?? []), ...String(json).split('\n')]);
      }
      for (const [runId, lines] of texts) yield { runId, awaited: findAwaited(lines) };
    },
  };
}
