import type { Kinship, Waiting } from '../plan-deletion.ts';
import { escapeText, type Row, type Transaction, toRecord, unescapeText } from '../sql/rows.ts';
import { toWaiting } from '../sql/waiting-runs.ts';
import { recordOf } from './list-runs.ts';

type Kin = { row: Row; parent: string | undefined };

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
  const kin = new Map<string, Kin>();
  const children = new Map<string, string[]>();
  const continuations = new Map<string, string[]>();
  let waiting: Waiting[] | undefined;
  const visited = new Set<string>();
  for (let keys = runIds.map(escapeText); keys.length > 0; ) {
    for (const key of keys) visited.add(key);
    const rows = await query(
      `SELECT ${recordOf(schema, '$2')} FROM ${schema}.runs r
       WHERE r.run_id = ANY($1) OR r.parent = ANY($1) OR r.continues = ANY($1) ORDER BY r.run DESC FOR UPDATE OF r`,
      ...[keys, now],
    );
    for (const row of rows) {
      const [key = '', parent, continued] = [row.run_id, row.parent, row.continues].map(readKey);
      if (kin.has(key)) continue;
      kin.set(key, { row, parent });
      if (parent !== undefined) add(children, parent, key);
      if (continued !== undefined) add(continuations, continued, key);
    }
    // Only child runs are awaited.
    if ([...kin.values()].some(({ parent }) => parent !== undefined))
      waiting ??= await readWaiting(query, schema);
    const waiters = (waiting ?? []).filter(({ awaited }) => [...awaited].some(id => kin.has(escapeText(id))));
    const found = [
      ...[...kin].flatMap(([key, { parent }]) => (parent === undefined ? [key] : [key, parent])),
      ...waiters.map(({ runId }) => escapeText(runId)),
    ];
    keys = found.filter(key => !visited.has(key));
  }
  const idsOf = (found: readonly string[] = []) => found.map(unescapeText);
  return {
    find(runId) {
      const found = kin.get(escapeText(runId));
      if (found === undefined) return undefined;
      const { row, parent } = found;
      return { record: toRecord(row), parent: parent === undefined ? undefined : unescapeText(parent) };
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

function readKey(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function add(map: Map<string, string[]>, key: string, value: string): void {
  map.set(key, [...(map.get(key) ?? []), value]);
}

/** Deletes runs with all that belongs to them. */
export async function dropRuns(query: Transaction, schema: string, runIds: readonly string[]): Promise<void> {
  if (runIds.length === 0) return;
  await query(`DELETE FROM ${schema}.runs WHERE run_id = ANY($1)`, runIds.map(escapeText));
}
