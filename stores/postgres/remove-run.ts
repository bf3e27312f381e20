import type { Kinship, Waiting } from '../plan-deletion.ts';
import { escapeText, type Row, type Transaction, toRecord, unescapeText } from '../sql/rows.ts';
import { toWaiting } from '../sql/waiting-runs.ts';
import { recordOf } from './list-runs.ts';

/**
 * Locks and reads the runs that a deletion of `runIds` may concern: child runs, continuations and parents, of these
 * too, and what the runs that have not ended wait for.
 */
export async function readKinship(
  query: Transaction,
  schema: string,
  runIds: readonly string[],
  now: number,
): Promise<Kinship> {
  /** The rows of these runs, by their ids as stored. */
  const kin = new Map<unknown, Row>();
  let waiting: Waiting[] | undefined;
  const visited = new Set<unknown>();
  for (let keys: unknown[] = runIds.map(escapeText); keys.length > 0; ) {
    for (const key of keys) visited.add(key);
    const rows = await query(
      `SELECT ${recordOf(schema, '$2')} FROM ${schema}.runs r
       WHERE r.run_id = ANY($1) OR r.parent = ANY($1) OR r.continues = ANY($1) ORDER BY r.run DESC FOR UPDATE OF r`,
      ...[keys, now],
    );
    for (const row of rows) if (!kin.has(row.run_id)) kin.set(row.run_id, row);
    const parents = [...kin.values()].flatMap(({ parent }) => (parent === null ? [] : [parent]));
    // Only child runs are awaited.
    if (parents.length > 0) waiting ??= await readWaiting(query, schema);
    const waiters = (waiting ?? []).filter(({ awaited }) => [...awaited].some(id => kin.has(escapeText(id))));
    const found = [...kin.keys(), ...parents, ...waiters.map(({ runId }) => escapeText(runId))];
    keys = found.filter(key => !visited.has(key));
  }
  const children = Map.groupBy(kin.values(), ({ parent }) => parent);
  const continuations = Map.groupBy(kin.values(), row => row.continues);
  const idsOf = (rows: readonly Row[] = []) => rows.map(({ run_id }) => unescapeText(String(run_id)));
  return {
    find(runId) {
      const row = kin.get(escapeText(runId));
      if (row === undefined) return undefined;
      const parent = row.parent === null ? undefined : unescapeText(String(row.parent));
      return { record: toRecord(row), parent };
    },
    childrenOf: runId => idsOf(children.get(escapeText(runId))),
    continuationsOf: runId => idsOf(continuations.get(escapeText(runId))),
    waiting: () => waiting ?? [],
  };
}

async function readWaiting(query: Transaction, schema: string): Promise<Waiting[]> {
  const rows = await query(
    `SELECT r.run_id, a.json FROM ${schema}.runs r JOIN ${schema}.appends a USING (run)
     WHERE r.status IN ('running', 'waiting')
       AND (position('"tool.suspended"' IN a.json) > 0 OR position('"result.received"' IN a.json) > 0)
     ORDER BY a.run, a.seq`,
  );
  return toWaiting(rows);
}

/** Deletes runs with all that belongs to them. */
export async function dropRuns(query: Transaction, schema: string, runIds: readonly string[]): Promise<void> {
  if (runIds.length === 0) return;
  await query(`DELETE FROM ${schema}.runs WHERE run_id = ANY($1)`, runIds.map(escapeText));
}
