import type { ListQuery } from '../list-query.ts';
import { escapeText, type Row, type Transaction } from '../sql/rows.ts';

/**
 * The columns that `toRecord` reads. The lease is shown on the clock of this process, whose time is the parameter `now`:
 * what is left of it counts.
 */
export function recordOf(schema: string, now: string): string {
  return `r.run_id, r.agent, r.title, r.labels::text AS labels, r.status, r.created_at, r.updated_at,
  r.seq::float8 AS seq, r.epoch::float8 AS epoch, r.continues, r.parent, r.parent_call, r.fork_of,
  r.fork_at::float8 AS fork_at, r.progress, r.owner, r.agent_version, r.chart_version, r.chart_hash,
  r.redactions::float8 AS redactions,
  r.wake_at - ${schema}.now_ms() + ${now}::float8 AS wake_at,
  r.lease_until - ${schema}.now_ms() + ${now}::float8 AS lease_until`;
}

/** Returns the rows of a page, and one more if there is a next page. */
export async function findRuns(
  query: Transaction,
  schema: string,
  { status, agent, parent, labels, since, before, text, after, order, limit }: ListQuery,
  now: number,
): Promise<Row[]> {
  const values: unknown[] = [now];
  const param = (value: unknown) => `$${values.push(value)}`;
  const direction = order === 'asc' ? 'ASC' : 'DESC';
  const conditions: string[] = [];
  for (const [column, value] of Object.entries({ status, agent, parent }))
    if (value !== undefined) conditions.push(`r.${column} = ${param(escapeText(value))}`);
  if (Object.keys(labels).length > 0) conditions.push(`r.labels @> ${param(JSON.stringify(labels))}::jsonb`);
  if (since !== undefined) conditions.push(`r.created_at >= ${param(since)}`);
  if (before !== undefined) conditions.push(`r.created_at < ${param(before)}`);
  if (text !== undefined) conditions.push(`position(${param(text)} IN r.search) > 0`);
  if (after !== undefined) {
    const sign = order === 'asc' ? '>' : '<';
    conditions.push(`(r.created_at, r.run_id) ${sign} (${param(after.createdAt)}, ${param(after.runId)})`);
  }
  const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`;
  return await query(
    `SELECT ${recordOf(schema, '$1')} FROM ${schema}.runs r ${where}
     ORDER BY r.created_at ${direction}, r.run_id ${direction} LIMIT ${param(limit + 1)}`,
    ...values,
  );
}
