import { omitUndefined } from '../../protocol/json.ts';
import type { Labels } from '../../protocol/listing/label.ts';
import { MOST_TOTALS, type TotalsRow } from '../../protocol/listing/totals.ts';
import { MOST_SCANNED } from '../../protocol/listing/words.ts';
import type { RunRecord, RunStatus, StoredSnapshot, WorkRequest } from '../../protocol/store.ts';
import { isIndexed, type ListQuery, placedRuns, threadKeyIn } from '../list-query.ts';
import { AWAITING, type Kinship, type Waiting } from '../plan-deletion.ts';
import { missingRun } from '../run-record.ts';
import { sumOfSnapshot } from '../sql/checksum.ts';
import {
  afterOf,
  divideBlob,
  escapeText,
  hasDeadOwner,
  isOneOf,
  joinParts,
  type Row,
  rangesOf,
  SORT_COLUMNS,
  type SqlCondition,
  startOfPart,
  type Transaction,
  toRecord,
  toRecords,
  toSnapshot,
  toWaiting,
  unescapeText,
} from '../sql/rows.ts';
import { sumSql, toTotalsRow } from '../sql/totals.ts';
import type { SumQuery } from '../totals.ts';
import { hashGrams } from './texts.ts';

/** Returns the place of a run; `lock` keeps it until the transaction ends. `now`: the server's time. Throws `run-unknown`. */
export async function locateRun(query: Transaction, runId: string, lock = '') {
  const [row] = await query(
    `SELECT run_id, run, seq, epoch, redactions, status, owner, lease_until, @now_ms() AS now FROM @runs WHERE run_id = $1 ${lock}`,
    escapeText(runId),
  );
  if (row === undefined) throw missingRun(runId);
  const numbers = [row.run, row.seq, row.epoch, row.redactions, row.now].map(Number);
  const [run = 0, seq = 0, epoch = 0, redactions = 0, now = 0] = numbers;
  return { run, seq, epoch, redactions, now, status: String(row.status) as RunStatus, row };
}

/** For `toRecord`. The lease is shown on the clock of this process, whose time is the parameter `now`. */
export function recordOfRow(now: string): string {
  return `r.run_id, r.agent, r.title, r.labels::text AS labels, r.status, r.created_at, r.updated_at,
  r.seq::float8 AS seq, r.epoch::float8 AS epoch, r.continues, r.parent, r.parent_call, r.fork_of,
  r.fork_at::float8 AS fork_at, r.thread, r.place::float8 AS place, r.progress, r.owner, r.agent_version, r.chart_version, r.chart_hash,
  r.redactions::float8 AS redactions,
  r.wake_at - @now_ms() + ${now}::float8 AS wake_at,
  r.lease_until - @now_ms() + ${now}::float8 AS lease_until`;
}

export async function findRuns(query: Transaction, wanted: ListQuery, now: number): Promise<Row[]> {
  const { sort, order, skip, limit } = wanted;
  const sorted = `r.${SORT_COLUMNS[sort]}${sort === 'status' ? ' COLLATE "C"' : ''}`;
  const { where, values } = conditionsOf(wanted, sorted);
  const direction = order === 'asc' ? 'ASC' : 'DESC';
  const text = numbered(
    3,
    `SELECT ${recordOfRow('$1')}, ${sorted} AS sorted_by FROM @runs r WHERE ${where}
     ORDER BY ${sort === 'created' ? '' : `${sorted} ${direction}, `}r.created_at ${direction}, r.run_id ${direction}
     LIMIT $2 OFFSET $3`,
  );
  return await query(text, now, limit + 1, skip, ...values);
}

/** The rows of totals, up to one more than fit. */
export async function sumRunsIn(query: Transaction, wanted: SumQuery): Promise<TotalsRow[]> {
  const { list, groups } = wanted;
  const { where, values } = conditionsOf(list, '');
  const sums = sumSql(wanted, {
    runs: 'r',
    step: 'floor(r.created_at / ?::float8) * ?::float8',
    label: 'r.labels ->> ?::text',
    text: ' COLLATE "C"',
  });
  const text = numbered(
    0,
    `SELECT ${sums.columns} FROM @runs r WHERE ${where} ${sums.end} LIMIT ${MOST_TOTALS + 1}`,
  );
  const rows = await query(text, ...sums.values, ...values);
  return rows.map(row => toTotalsRow(groups, row));
}

/** SQL with its parameters by number, after `last` ones. */
function numbered(last: number, text: string): string {
  let number = last;
  return text.replaceAll('?', () => `$${++number}`);
}

/** The runs of a list, in any order. */
function conditionsOf(wanted: ListQuery, sorted: string): SqlCondition {
  const { status, agent, parent, thread: named, labels } = wanted;
  const thread = typeof named === 'string' ? named : undefined;
  const key = threadKeyIn(wanted);
  const conditions = Object.entries(omitUndefined({ status, agent, parent, thread })).map(([column, value]) =>
    isOneOf(`r.${column}`, value),
  );
  if (key !== undefined) conditions.push({ where: 'r.thread_key = ?', values: [key] });
  if (wanted.latest === true)
    conditions.push(
      key === undefined ? { where: isLatest('r'), values: [] } : { where: isLatest('r', '?'), values: [key] },
    );
  if (Object.keys(labels).length > 0)
    conditions.push({ where: 'r.labels @> ?::jsonb', values: [JSON.stringify(labels)] });
  if (wanted.folded === true) conditions.push({ where: isOnTop('r'), values: [] }, newestOfSession(labels));
  conditions.push(...rangesOf(wanted, { key: 'r', runs: 'r' }));
  return joinConditions([joinConditions(withWords(conditions, wanted)), ...afterOf(wanted, 'r', sorted)]);
}

/** The conditions with those of the words. If no index has one, only the newest runs are searched. */
function withWords(conditions: readonly SqlCondition[], wanted: ListQuery): SqlCondition[] {
  const { words, latest } = wanted;
  if (words === undefined) return [...conditions];
  if (latest === true) {
    const { where, values } = conditionsOf(placedRuns(wanted), '');
    const ofThreads = `r.thread_key IN (SELECT r.thread_key FROM @runs r WHERE r.place IS NOT NULL AND ${where})`;
    return [...conditions, { where: ofThreads, values }];
  }
  const found = words.map(
    (word): SqlCondition =>
      isIndexed(word)
        ? {
            where: `r.run IN (SELECT t.run FROM @texts t WHERE t.grams @> ?::int4[] AND position(?::text IN t.text) > 0)`,
            values: [hashGrams(word), word],
          }
        : {
            where: `EXISTS (SELECT 1 FROM @texts t WHERE t.run = r.run AND position(?::text IN t.text) > 0)`,
            values: [word],
          },
  );
  if (words.some(isIndexed)) return [...conditions, ...found];
  const { where, values } = joinConditions(conditions);
  const newest = `r.run IN (SELECT r.run FROM @runs r WHERE ${where} ORDER BY r.created_at DESC, r.run_id DESC LIMIT ${MOST_SCANNED})`;
  return [...conditions, { where: newest, values }, ...found];
}

function joinConditions(conditions: readonly SqlCondition[]): SqlCondition {
  return {
    where: conditions.map(condition => condition.where).join(' AND ') || 'TRUE',
    values: conditions.flatMap(condition => condition.values),
  };
}

function isLatest(of: string, key = `${of}.thread_key`): string {
  return `${of}.place = (SELECT max(o.place) FROM @runs o WHERE o.thread_key = ${key})`;
}

function isOnTop(of: string): string {
  return `${of}.parent IS NULL AND (${of}.thread_key IS NULL OR ${isLatest(of)})`;
}

/** The session has no newer run with these labels. */
function newestOfSession(labels: Labels): SqlCondition {
  const hasLabels = Object.keys(labels).length > 0;
  return {
    where: `(r.session IS NULL OR NOT EXISTS (
      SELECT 1 FROM @runs newer WHERE newer.session = r.session
        AND (newer.created_at, newer.run_id) > (r.created_at, r.run_id) AND ${isOnTop('newer')}
        ${hasLabels ? 'AND newer.labels @> ?::jsonb' : ''}))`,
    values: hasLabels ? [JSON.stringify(labels)] : [],
  };
}

/** The id of the latest run of a thread, `null` for a thread without runs. */
export async function queryLatest(query: Transaction, key: string | undefined): Promise<string | null> {
  const [row] = await query(
    `SELECT run_id FROM @runs WHERE thread_key = $1 AND place IS NOT NULL ORDER BY place DESC LIMIT 1`,
    key ?? null,
  );
  return row === undefined ? null : unescapeText(String(row.run_id));
}

export const LINK = `r.run_id, r.created_at, r.redactions::float8 AS redactions, r.seq::float8 AS seq, r.continues`;

/**
 * Locks and reads the runs that a deletion may concern: the kin of `runIds`, and their kin, and what open runs wait for.
 * It looks again until it finds no others: one that took its place after a run before that was locked.
 */
export async function readKinship(
  query: Transaction,
  runIds: readonly string[],
  now: number,
): Promise<Kinship> {
  const kin = new Map<unknown, Row>();
  let waiting: Waiting[] | undefined;
  const visited = new Set<unknown>();
  for (let keys: unknown[] = runIds.map(escapeText), known = -1; keys.length > 0; ) {
    for (const key of keys) visited.add(key);
    const rows = await query(
      `SELECT ${recordOfRow('$2')} FROM @runs r
       WHERE r.run_id = ANY($1) OR r.parent = ANY($1) OR r.continues = ANY($1) ORDER BY r.run DESC FOR UPDATE OF r`,
      ...[keys, now],
    );
    for (const row of rows) if (!kin.has(row.run_id)) kin.set(row.run_id, row);
    const parents = [...kin.values()].flatMap(({ parent }) => (parent === null ? [] : [parent]));
    // Only child runs are awaited.
    if (parents.length > 0) waiting ??= await readWaiting(query);
    const waiters = (waiting ?? []).filter(({ awaited }) => [...awaited].some(id => kin.has(escapeText(id))));
    const found = [...kin.keys(), ...parents, ...waiters.map(({ runId }) => escapeText(runId))];
    keys = found.filter(key => !visited.has(key));
    if (keys.length > 0 || kin.size === known) continue;
    known = kin.size;
    keys = [...kin.keys()];
  }
  const children = Map.groupBy(kin.values(), ({ parent }) => parent);
  const continuations = Map.groupBy(kin.values(), row => row.continues);
  const idsOf = (rows: readonly Row[] = []) => rows.map(({ run_id }) => unescapeText(String(run_id)));
  return {
    find(runId) {
      const row = kin.get(escapeText(runId));
      return row && toRecord(row);
    },
    childrenOf: runId => idsOf(children.get(escapeText(runId))),
    continuationsOf: runId => idsOf(continuations.get(escapeText(runId))),
    waiting: () => waiting ?? [],
  };
}

async function readWaiting(query: Transaction): Promise<Waiting[]> {
  const rows = await query(
    `SELECT r.run_id, a.json FROM @runs r JOIN @appends a USING (run)
     WHERE r.status IN ('running', 'waiting')
       AND (${AWAITING.map(part => `position('${part}' IN a.json) > 0`).join(' OR ')})
     ORDER BY a.run, a.seq`,
  );
  return toWaiting(rows);
}

export async function dropRuns(query: Transaction, runIds: readonly string[]): Promise<void> {
  if (runIds.length === 0) return;
  await query(`DELETE FROM @runs WHERE run_id = ANY($1)`, runIds.map(escapeText));
}

/** Reserves runs that have something to do, and returns their records: see `Store.takeWork`. */
export async function takeRuns(query: Transaction, request: WorkRequest, now: number): Promise<RunRecord[]> {
  if (request.limit <= 0 || request.agents.length === 0) return [];
  const rows = await query(
    `WITH ${findSql('FOR UPDATE SKIP LOCKED')}
    UPDATE @runs r SET reserved_until = (SELECT ms FROM clock) + $7::float8
    FROM found WHERE r.run = found.run RETURNING ${recordOfRow('$8')}`,
    ...(await valuesOf(query, request)),
    request.reserveMs,
    now,
  );
  const { onDamaged = () => {} } = request;
  return toRecords(rows, { onDamaged }).sort((one, other) => one.updatedAt - other.updatedAt);
}

export async function countRuns(query: Transaction, request: WorkRequest): Promise<number> {
  if (request.limit <= 0 || request.agents.length === 0) return 0;
  const [row] = await query(
    `WITH ${findSql('')} SELECT count(*) AS count FROM found`,
    ...(await valuesOf(query, request)),
  );
  return Number(row?.count);
}

/** The parts `clock` and `found` of a statement, with the parameters of `valuesOf`. */
function findSql(lock: string): string {
  return `clock AS MATERIALIZED (SELECT @now_ms() AS ms),
    found AS (
      SELECT r.run FROM @runs r
      WHERE (r.status = 'running' OR r.owner IS NOT NULL OR r.wake_at <= (SELECT ms FROM clock))
        AND r.status IN ('running', 'waiting')
        AND (r.owner IS NULL OR r.lease_until <= (SELECT ms FROM clock) OR ${PROCESS_OF_OWNER} = ANY($1))
        AND (r.reserved_until IS NULL OR r.reserved_until <= (SELECT ms FROM clock))
        AND (r.agent = ANY($2) OR r.agent || E'\\n' || r.agent_version = ANY($3)
          OR (r.agent_version IS NULL AND r.agent = ANY($4)))
        AND ($5::text[] IS NULL OR r.chart_hash IS NULL OR r.chart_version || ' ' || r.chart_hash = ANY($5))
      ORDER BY r.updated_at, r.run LIMIT $6 ${lock})`;
}

async function valuesOf(
  query: Transaction,
  { agents, charts, limit, isDead }: WorkRequest,
): Promise<unknown[]> {
  const dead = isDead === undefined ? [] : await findDead(query, isDead);
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

async function findDead(query: Transaction, isDead: NonNullable<WorkRequest['isDead']>): Promise<unknown[]> {
  const rows = await query(
    `SELECT ${PROCESS_OF_OWNER} AS process, min(r.owner) AS owner FROM @runs r
     WHERE r.owner IS NOT NULL AND r.lease_until > @now_ms() GROUP BY 1`,
  );
  return rows.flatMap(({ process, owner }) => (hasDeadOwner(owner, isDead) ? [process] : []));
}

/** Stores the state after an entry, unless a later one is stored, or the run was redacted another number of times. */
export async function saveSnapshotAs(
  query: Transaction,
  { key, seq, redactions, text }: { key: string; seq: number; redactions: number; text: string },
): Promise<void> {
  await query(
    `INSERT INTO @snapshots AS old (run, seq, sum, state) SELECT run, $2, $3, $4 FROM @runs
     WHERE run_id = $1 AND redactions = $5 FOR SHARE
     ON CONFLICT (run) DO UPDATE SET seq = excluded.seq, sum = excluded.sum, state = excluded.state
     WHERE excluded.seq >= old.seq`,
    ...[key, seq, sumOfSnapshot(key, seq, text), text, redactions],
  );
}

export async function readSnapshot(query: Transaction, runId: string): Promise<StoredSnapshot | undefined> {
  const [row] = await query(
    `SELECT n.seq, n.sum, n.state, r.base FROM @runs r JOIN @snapshots n USING (run) WHERE r.run_id = $1`,
    escapeText(runId),
  );
  return toSnapshot(runId, row);
}

const PART_BYTES = 256 * 1024;

export async function writeBlob(
  query: Transaction,
  { run, digest, text }: { run: number; digest: string; text: string },
): Promise<void> {
  for (const { start, bytes, sum } of divideBlob(digest, text, PART_BYTES))
    await query(
      `INSERT INTO @blobs (run, digest, start, sum, bytes) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
      ...[run, digest, start, sum, bytes],
    );
}

export async function readBytes(
  query: Transaction,
  { runId, digest, offset, length }: { runId: string; digest: string; offset: number; length: number },
): Promise<Uint8Array | undefined> {
  const first = startOfPart(offset, PART_BYTES);
  const rows = await query(
    `SELECT b.start, b.sum, b.bytes FROM @runs r JOIN @blobs b USING (run)
     WHERE r.run_id = $1 AND b.digest = $2 AND (b.start = 0 OR b.start >= $3 AND b.start < $4) ORDER BY b.start`,
    ...[escapeText(runId), digest, first, offset + length],
  );
  if (rows.length === 0) return undefined;
  const parts = rows.filter(({ start }) => Number(start) >= first);
  return joinParts(parts, { runId, digest }, { offset, length, size: PART_BYTES });
}
