import type { RunRecord, WorkRequest } from '../../protocol/store.ts';
import { escapeText, hasDeadOwner, type Transaction, toRecords } from '../sql/rows.ts';
import { recordOf } from './list-runs.ts';

/** Reserves runs that have something to do, and returns their records: see `Store.takeWork`. */
export async function takeRuns(
  query: Transaction,
  s: string,
  request: WorkRequest,
  now: number,
): Promise<RunRecord[]> {
  if (request.limit <= 0 || request.agents.length === 0) return [];
  const rows = await query(
    `WITH ${findSql(s, 'FOR UPDATE SKIP LOCKED')}
    UPDATE ${s}.runs r SET reserved_until = (SELECT ms FROM clock) + $7::float8
    FROM found WHERE r.run = found.run RETURNING ${recordOf(s, '$8')}`,
    ...(await valuesOf(query, s, request)),
    request.reserveMs,
    now,
  );
  const { onDamaged = () => {} } = request;
  return toRecords(rows, { onDamaged }).sort((one, other) => one.updatedAt - other.updatedAt);
}

/** Counts those runs: see `Store.countWork`. */
export async function countRuns(query: Transaction, s: string, request: WorkRequest): Promise<number> {
  if (request.limit <= 0 || request.agents.length === 0) return 0;
  const [row] = await query(
    `WITH ${findSql(s, '')} SELECT count(*) AS count FROM found`,
    ...(await valuesOf(query, s, request)),
  );
  return Number(row?.count);
}

/** The parts `clock` and `found` of a statement, with the parameters of `valuesOf`. */
function findSql(s: string, lock: string): string {
  return `clock AS MATERIALIZED (SELECT ${s}.now_ms() AS ms),
    found AS (
      SELECT r.run FROM ${s}.runs r
      WHERE (r.status = 'running' OR r.owner IS NOT NULL OR r.wake_at <= (SELECT ms FROM clock))
        AND r.status IN ('running', 'waiting')
        AND (r.owner IS NULL OR r.lease_until <= (SELECT ms FROM clock) OR ${PROCESS_OF_OWNER} = ANY($1))
        AND (r.reserved_until IS NULL OR r.reserved_until <= (SELECT ms FROM clock))
        AND (r.agent = ANY($2) OR r.agent || E'\\n' || r.agent_version = ANY($3)
          OR (r.agent_version IS NULL AND r.agent = ANY($4)))
        AND ($5::text[] IS NULL OR r.chart_hash IS NULL OR r.chart_version || ' ' || r.chart_hash = ANY($5))
      ORDER BY r.updated_at, r.run LIMIT $6 ${lock})`;
}

/** The parameters $1 to $6. */
async function valuesOf(
  query: Transaction,
  s: string,
  { agents, charts, limit, isDead }: WorkRequest,
): Promise<unknown[]> {
  const dead = isDead === undefined ? [] : await findDead(query, s, isDead);
  const anyVersion = agents.filter(({ versions }) => versions === undefined);
  const oneVersion = agents.flatMap(({ name, versions = [] }) =>
    versions.map(version => `${escapeText(name)}\n${escapeText(version)}`),
  );
  return [
    dead,
    anyVersion.map(({ name }) => escapeText(name)),
    oneVersion,
    agents.map(({ name }) => escapeText(name)),
    charts?.map(({ version, hash }) => `${version} ${escapeText(hash)}`) ?? null,
    limit,
  ];
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
