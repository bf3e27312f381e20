import type { Kinship } from '../plan-deletion.ts';
import { escapeText, type Row, unescapeText } from '../sql/rows.ts';
import { toWaiting } from '../sql/waiting-runs.ts';
import { describeRun, locateRun } from './locate-run.ts';
import type { Statements } from './statements.ts';

/** Deletes runs with all that belongs to them, and returns their ids. */
export function removeRuns(sql: Statements, doomed: string[]): string[] {
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
      const parent = sql.run.get(escapeText(runId))?.parent;
      return { record, parent: typeof parent === 'string' ? unescapeText(parent) : undefined };
    },
    childrenOf: runId => idsOf(sql.children.all(escapeText(runId))),
    continuationsOf: runId => idsOf(sql.continuations.all(escapeText(runId))),
    waiting: () => toWaiting(sql.suspensions.all()),
  };
}
