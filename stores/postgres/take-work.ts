import type { RunRecord, WorkRequest } from '../../protocol/store.ts';
import { escapeText, hasDeadOwner, type Transaction, toRecords } from '../rows.ts';
import { recordOf } from './list-runs.ts';

/** Reserves runs that have something to do, and returns their records: see `Store.takeWork`. */
export async function takeRuns(
  query: Transaction,
  s: string,
  { agents, charts, limit, reserveMs, isDead, onDamaged = () => {} }: WorkRequest,
  now: number,
): Promise<RunRecord[]> {
  if (limit <= 0 || agents.length === 0) return [];
  const dead = isDead === undefined ? [] : await findDead(query, s, isDead);
  const anyVersion = agents.filter(({ versions }) => versions === undefined);
  const oneVersion = agents.flatMap(({ name, versions = [] }) =>
    versions.map(version => `${escapeText(name)}\n${escapeText(version)}`),
  );
  const rows = await query(
    `WITH clock AS MATERIALIZED (SELECT ${s}.now_ms() AS ms),
    found AS (
      SELECT r.run FROM ${s}.runs r
      WHERE (r.status = 'running' OR r.owner IS NOT NULL OR r.wake_at <= (SELECT ms FROM clock))
        AND r.status IN ('running', 'waiting')
        AND (r.owner IS NULL OR r.lease_until <= (SELECT ms FROM clock) OR ${PROCESS_OF_OWNER} = ANY($2))
        AND (r.reserved_until IS NULL OR r.reserved_until <= (SELECT ms FROM clock))
        AND (r.agent = ANY($3) OR r.agent || E'\\n' || r.agent_version = ANY($4)
          OR (r.agent_version IS NULL AND r.agent = ANY($5)))
        AND ($6::text[] IS NULL OR r.chart_hash IS NULL OR r.chart_version || ' ' || r.chart_hash = ANY($6))
      ORDER BY r.updated_at, r.run LIMIT $7 FOR UPDATE SKIP LOCKED)
    UPDATE ${s}.runs r SET reserved_until = (SELECT ms FROM clock) + $8::float8
    FROM found WHERE r.run = found.run RETURNING ${recordOf(s, '$1')}`,
    ...[now, dead, anyVersion.map(({ name }) => escapeText(name)), oneVersion],
    ...[agents.map(({ name }) => escapeText(name))],
    ...[charts?.map(({ version, hash }) => `${version} ${escapeText(hash)}`) ?? null, limit, reserveMs],
  );
  return toRecords(rows, { onDamaged }).sort((one, other) => one.updatedAt - other.updatedAt);
}

/** An owner without its id, which each of its drivers has for itself. */
const PROCESS_OF_OWNER = `(r.owner::jsonb - 'id')::text`;

async function findDead(
  query: Transaction,
  s: string,
  isDead: NonNullable<WorkRequest['isDead']>,
): Promise<unknown[]> {
  const rows = await query(
    `SELECT ${PROCESS_OF_OWNER} AS process, min(r.owner) AS owner FROM ${s}.runs r
     WHERE r.owner IS NOT NULL AND r.lease_until > ${s}.now_ms() GROUP BY 1`,
  );
  return rows.flatMap(({ process, owner }) => (hasDeadOwner(owner, isDead) ? [process] : []));
}
