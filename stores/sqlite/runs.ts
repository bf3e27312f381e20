import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { EngineError } from '../../protocol/error.ts';
import { type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { Labels } from '../../protocol/listing/label.ts';
import { MOST_TOTALS, type TotalsRow } from '../../protocol/listing/totals.ts';
import { gramsOf, MOST_SCANNED, searchedNamesOf } from '../../protocol/listing/words.ts';
import type {
  RunLink,
  RunRecord,
  RunStatus,
  StoredSnapshot,
  ThreadPlace,
  WorkRequest,
} from '../../protocol/store.ts';
import { isWork } from '../lease.ts';
import { isIndexed, type ListQuery, placedRuns, threadKeyIn } from '../list-query.ts';
import type { Kinship } from '../plan-deletion.ts';
import {
  assertUnredacted,
  existingRun,
  followChain,
  type LatestRun,
  missingRun,
  takePlace,
} from '../run-record.ts';
import { sumOfRecord, sumOfSnapshot } from '../sql/checksum.ts';
import {
  afterOf,
  columnsOf,
  divideBlob,
  escapeText,
  hasDeadOwner,
  isOneOf,
  joinParts,
  type NewRun,
  type Row,
  rangesOf,
  SORT_COLUMNS,
  type SqlCondition,
  startOfPart,
  toLease,
  toLinks,
  toRecord,
  toRecords,
  toSnapshot,
  toWaiting,
  unescapeText,
} from '../sql/rows.ts';
import { sumSql, toTotalsRow } from '../sql/totals.ts';
import type { SumQuery } from '../totals.ts';
import { RECORD, type Statements } from './statements.ts';

/** Where a journal ends. `sum`: the checksum of its last entry. `hasRowsPastEnd`: rows follow the recorded end. */
export type Position = ReturnType<typeof locateRunRow>;

export function locateRunRow(sql: Statements, runId: string) {
  const row = findRow(sql.position, sql, runId);
  if (row === undefined) throw missingRun(runId);
  const { run, base, seq, epoch, redactions, sum, status, wake_at: wakeAt } = row;
  return {
    run: Number(run),
    base: Number(base),
    seq: Number(seq),
    epoch: Number(epoch),
    redactions: Number(redactions),
    sum: String(sum),
    status: String(status) as RunStatus,
    wakeAt: wakeAt === null ? undefined : Number(wakeAt),
    hasRowsPastEnd: row.has_rows_past_end === 1,
  };
}

export function describeRun(sql: Statements, runId: string): RunRecord | undefined {
  const row = findRow(sql.run, sql, runId);
  return row && toRecord(row);
}

export function readChain(sql: Statements, runId: string): RunLink[] {
  const links = toLinks(sql.chain.all(escapeText(runId)));
  // A run that is missing may have a journal: `describeRun` says so.
  return followChain(runId, id => links.get(id) ?? describeRun(sql, id));
}

function findRow(statement: Statements['run'], sql: Statements, runId: string): Row | undefined {
  const key = escapeText(runId);
  const row = statement.get(key);
  if (row?.run_id === key) return row;
  if (row === undefined && sql.journal.get(key) === undefined) return undefined;
  throw new EngineError(
    'store-damaged',
    `The record of run "${runId}" is missing, but its journal is not. Restore the store from a backup.`,
    { runId },
  );
}

/** Throws `changedThread` if the run cannot take its place. */
export function insertRunRow(sql: Statements, created: NewRun, place?: ThreadPlace): Position {
  const { runId, labels, status, createdAt, base, wakeAt } = created;
  if (describeRun(sql, runId) !== undefined) throw existingRun(runId);
  const columns = columnsOf(created);
  const sum = sumOfRecord(columns);
  const taken = takePlace(created, place, {
    latest: () => findLatest(sql, columns.thread_key),
    free: old => freePlace(sql, old),
  });
  const inserted = sql.insertRun.run({ ...columns, place: taken ?? null, wake_at: wakeAt ?? null, sum });
  const run = Number(inserted.lastInsertRowid);
  sql.nameJournal.run(columns.run_id, run);
  for (const [name, value] of Object.entries(labels))
    sql.insertLabel.run(run, name, value, createdAt, columns.run_id);
  writeNames(sql, run, created);
  indexTexts(sql);
  return { run, base, seq: base, sum, epoch: 0, redactions: 0, status, wakeAt, hasRowsPastEnd: false };
}

export function writeNames(
  sql: Statements,
  run: number,
  record: Parameters<typeof searchedNamesOf>[0] | undefined,
): void {
  const names = record === undefined ? '' : searchedNamesOf(record);
  sql.addText.run(run, 0, names.length, names);
}

/** So many characters are indexed at once: one at a time, each commit would take several times as long. */
const MOST_UNINDEXED = 65_536;

/** Brings the index up to date if that is due, or `all`: then nothing of what was removed waits there. */
export function indexTexts(sql: Statements, { all = false } = {}): void {
  if (!all && Number(sql.charsToIndex.get()?.chars) < MOST_UNINDEXED) return;
  for (const step of [sql.dropFromIndex, sql.addToIndex, sql.endDropping, sql.endAdding]) step.run();
}

export function findLatest(sql: Statements, key: string | null): LatestRun | undefined {
  const row = sql.latest.get(key);
  if (row === undefined) return undefined;
  const { run_id, status, place } = row;
  return { runId: unescapeText(String(run_id)), status: String(status) as RunStatus, place: Number(place) };
}

function freePlace(sql: Statements, runId: string): number | undefined {
  const place = describeRun(sql, runId)?.place;
  sql.leavePlace.run(escapeText(runId));
  return place;
}

/** A state as its row has it. */
export type PackedState = { text: string; bytes: Uint8Array };

export function packState(state: JsonValue): PackedState {
  const text = JSON.stringify(state);
  return { text, bytes: deflateRawSync(text, { level: 1 }) };
}

export function writeSnapshot(
  sql: Statements,
  { runId, run, seq }: { runId: string; run: number; seq: number },
  { text, bytes }: PackedState,
): void {
  sql.saveSnapshot.run(run, seq, sumOfSnapshot(escapeText(runId), seq, text), bytes);
}

export function readStoredSnapshot(sql: Statements, runId: string): StoredSnapshot | undefined {
  const row = sql.snapshot.get(escapeText(runId));
  return toSnapshot(runId, row && { ...row, state: unpack(row.state) });
}

/** A text with a wrong checksum if it is damaged. */
function unpack(bytes: unknown): string {
  try {
    return bytes instanceof Uint8Array ? inflateRawSync(bytes).toString() : '';
  } catch {
    return '';
  }
}

export function removeRuns(sql: Statements, doomed: string[]): string[] {
  if (doomed.length > 0) sql.raiseFloor.run();
  for (const id of doomed) {
    const { run } = locateRunRow(sql, id);
    for (const { digest } of sql.blobsOfRun.all(run)) dropBlob(sql, run, String(digest));
    sql.dropTexts.run(run, 0, run);
    for (const remove of [sql.dropLabels, sql.dropSnapshot, sql.dropDeltas]) remove.run(run);
    sql.dropRows.run(run, run);
    sql.dropRun.run(run);
    sql.dropJournal.run(escapeText(id));
  }
  indexTexts(sql, { all: true });
  return doomed;
}

export function dropBlob(sql: Statements, run: number, digest: string): void {
  sql.unreferBlob.run(run, digest);
  if (sql.isBlobKept.get(digest) === undefined) sql.dropBlob.run(digest);
}

export function makeKinship(sql: Statements): Kinship {
  const idsOf = (rows: readonly Row[]) => rows.map(({ run_id }) => unescapeText(String(run_id)));
  return {
    find: runId => describeRun(sql, runId),
    childrenOf: runId => idsOf(sql.children.all(escapeText(runId))),
    continuationsOf: runId => idsOf(sql.continuations.all(escapeText(runId))),
    waiting: () => toWaiting(sql.suspensions.all()),
  };
}

const PART_BYTES = 64 * 1024;

/** A blob that another run has is only referenced. Throws `run-unknown`, and like `assertUnredacted`. */
export function writeBlobRow(
  sql: Statements,
  runId: string,
  { digest, text, redactions }: { digest: string; text: string; redactions?: number | undefined },
): void {
  const position = locateRunRow(sql, runId);
  assertUnredacted(runId, position, redactions);
  const { run } = position;
  if (sql.isBlobKept.get(digest) === undefined)
    for (const { start, bytes, sum } of divideBlob(digest, text, PART_BYTES))
      sql.insertBlob.run(digest, start, bytes, sum);
  sql.referBlob.run(run, digest);
}

export function readBlobBytes(
  sql: Statements,
  runId: string,
  digest: string,
  range: { offset: number; length: number },
): Uint8Array | undefined {
  if (sql.hasBlob.get(escapeText(runId), digest) === undefined) return undefined;
  const { offset, length } = range;
  const parts = sql.blobParts.all(digest, startOfPart(offset, PART_BYTES), offset + length);
  return joinParts(parts, { runId, digest }, { offset, length, size: PART_BYTES });
}

export function findCandidates(sql: Statements, { now, isDead }: WorkRequest): Row[] {
  const processes = isDead === undefined ? [] : sql.processes.all(now);
  const dead = processes.flatMap(({ process, owner }) => (hasDeadOwner(owner, isDead) ? [process] : []));
  return sql.candidates.all(now, now, now, JSON.stringify(dead));
}

export function chooseWork(sql: Statements, candidates: readonly Row[], request: WorkRequest): RunRecord[] {
  const taken: RunRecord[] = [];
  for (const { run_id } of candidates) {
    if (taken.length >= request.limit) break;
    const row = sql.run.get(String(run_id));
    if (row === undefined) continue;
    const [record] = toRecords([row], { onDamaged: error => request.onDamaged?.(error) });
    if (record === undefined) continue;
    const reservedUntil = row.reserved_until === null ? undefined : Number(row.reserved_until);
    if (isWork({ ...record, lease: toLease(row), reservedUntil }, request)) taken.push(record);
  }
  return taken;
}

/** An index with the runs of one condition in the order of the list. `key` has `created_at` and `run_id`. */
type Path = SqlCondition & {
  from: string;
  join: string;
  key: 'runs' | 'found';
  /** What is counted in its place, with the same values. */
  counted?: string;
};

const ALL: Path = { from: 'runs', join: '', key: 'runs', where: 'TRUE', values: [] };
const SCAN: Path = { ...ALL, from: 'runs NOT INDEXED' };
const BY_AGE: Path = { ...ALL, from: 'runs INDEXED BY runs_by_age' };
const ON_TOP: Path = { ...ALL, from: 'runs INDEXED BY runs_on_top', where: 'runs.parent IS NULL' };

/** Up to how many runs of a condition are counted, to choose the narrowest one. */
const MOST_COUNTED = 1_000;

export function findRunRows(sql: Statements, query: ListQuery): Row[] {
  const { sort, order, skip, limit } = query;
  const ways = pathsOf(query);
  const byWord = wordPaths(query);
  const paths = [...ways, ...byWord];
  const path =
    byWord.length === 0
      ? narrowest(sql, paths, widestOf(query))
      : narrowest(sql, paths, ways[0] ?? widestOf(query), { isCounted: true });
  const others = othersThan(path, paths);
  const sorted = `${sort === 'created' ? path.key : 'runs'}.${SORT_COLUMNS[sort]}`;
  const ranges = rangesOf(query, { key: path.key, runs: 'runs' });
  const chosen = withWords(path, [path, ...others, ...foldsOf(query), ...ranges], query);
  const conditions = [...chosen, ...afterOf(query, path.key, sorted)];
  const where = conditions.map(condition => condition.where).join(' AND ');
  const values = conditions.flatMap(condition => condition.values);
  const direction = order === 'asc' ? 'ASC' : 'DESC';
  const by = (key: string, value: string) =>
    `ORDER BY ${[value, `${key}.created_at`, `${key}.run_id`].map(name => `${name} ${direction}`).join(', ')}`;
  return sql
    .prepare(
      `SELECT ${RECORD}, chosen.sorted_by FROM (
         SELECT runs.run, ${sorted} AS sorted_by FROM ${path.from} ${path.join} WHERE ${where}
         ${by(path.key, sorted)} LIMIT ? OFFSET ?) AS chosen
       CROSS JOIN runs ON runs.run = chosen.run ${by('runs', 'chosen.sorted_by')}`,
    )
    .all(...values, limit + 1, skip);
}

/** The rows of totals, up to one more than fit. A scan reads no index, because it needs the records. */
export function sumRuns(sql: Statements, query: SumQuery): TotalsRow[] {
  const { list, groups } = query;
  const paths = [...pathsOf(list), ...agePath(list), ...wordPaths(list)];
  const path = narrowest(sql, paths, SCAN, { isCounted: true });
  const others = othersThan(path, paths);
  const ranges = rangesOf(list, { key: path.key, runs: 'runs' });
  const conditions = withWords(path, [path, ...others, ...foldsOf(list), ...ranges], list);
  const where = conditions.map(condition => condition.where).join(' AND ');
  const { columns, values, end } = sumSql(query, {
    runs: 'runs',
    step: 'CAST(runs.created_at / ? AS INTEGER) * ?',
    label: 'SELECT value FROM labels AS named WHERE named.run = runs.run AND named.name = ?',
    text: '',
  });
  return sql
    .prepare(
      `SELECT ${columns} FROM ${path.from} ${path.join} WHERE ${where} ${end} LIMIT ${MOST_TOTALS + 1}`,
    )
    .all(...values, ...conditions.flatMap(condition => condition.values))
    .map(row => toTotalsRow(groups, row));
}

/** The runs since a time: few of all, if it is late. */
function agePath({ since }: ListQuery): Path[] {
  return since === undefined ? [] : [{ ...BY_AGE, where: 'runs.created_at >= ?', values: [since] }];
}

/** More make no index narrower. */
const MOST_GRAMS = 24;

/** The runs that have the groups of three characters of a word, and those of which the index does not yet know. */
function wordPaths(query: ListQuery): Path[] {
  const { words = [] } = query;
  if (query.latest === true) return query.words === undefined ? [] : [threadPath(query)];
  return words.filter(isIndexed).map(word => {
    const grams = gramsOf(word).slice(0, MOST_GRAMS);
    return {
      ...ALL,
      where: `runs.run IN (SELECT rowid >> 32 FROM texts_index WHERE texts_index MATCH ?
        UNION ALL SELECT id >> 32 FROM texts_to_index)`,
      counted: 'SELECT 1 FROM texts_index WHERE texts_index MATCH ?',
      values: [grams.map(gram => `"${gram.replaceAll('"', '""')}"`).join(' AND ')],
    };
  });
}

/** The runs of the threads that have a run with the words. */
function threadPath(list: ListQuery): Path {
  const query = placedRuns(list);
  const ofLabels = Object.entries(query.labels).map(
    (label): SqlCondition => ({ where: hasLabel('runs'), values: label }),
  );
  const ofThread = pathsOf({ ...query, labels: {} });
  const placed: SqlCondition = { where: 'runs.place IS NOT NULL', values: [] };
  const found = withWords(ALL, [placed, ...ofThread, ...ofLabels, ...wordPaths(query)], query);
  return {
    ...BY_AGE,
    from: 'runs INDEXED BY runs_by_place',
    where: `runs.thread_key IN (SELECT runs.thread_key FROM runs WHERE ${found.map(({ where }) => where).join(' AND ')})`,
    values: found.flatMap(({ values }) => values),
  };
}

/** A word that many runs have narrows the list only together with others. */
function othersThan(path: Path, paths: readonly Path[]): SqlCondition[] {
  const byWord = paths.filter(({ counted }) => counted !== undefined);
  return paths
    .filter(other => other !== path && (byWord.length > 1 || other.counted === undefined))
    .map(asCondition);
}

/** The conditions with those of the words. If no index has one, only the newest runs are searched. */
function withWords(path: Path, conditions: readonly SqlCondition[], query: ListQuery): SqlCondition[] {
  const { words, latest } = query;
  if (words === undefined || latest === true) return [...conditions];
  const found = words.map(
    (word): SqlCondition => ({
      where: `EXISTS (SELECT 1 FROM texts WHERE texts.id >= runs.run << 32 AND texts.id < (runs.run + 1) << 32
        AND instr(texts.text, ?) > 0)`,
      values: [word],
    }),
  );
  if (words.some(isIndexed)) return [...conditions, ...found];
  const newest: SqlCondition = {
    where: `runs.run IN (SELECT runs.run FROM ${path.from} ${path.join}
      WHERE ${conditions.map(({ where }) => where).join(' AND ')}
      ORDER BY ${path.key}.created_at DESC, ${path.key}.run_id DESC LIMIT ${MOST_SCANNED})`,
    values: conditions.flatMap(({ values }) => values),
  };
  return [...conditions, newest, ...found];
}

function widestOf({ sort, folded }: ListQuery): Path {
  if (sort !== 'created') return ALL;
  return folded === true ? ON_TOP : BY_AGE;
}

function foldsOf(query: ListQuery): SqlCondition[] {
  const { latest, folded, labels } = query;
  const conditions: SqlCondition[] = [];
  if (latest === true) conditions.push(latestOf(query));
  if (folded === true) conditions.push({ where: isOnTop('runs'), values: [] }, newestOfSession(labels));
  return conditions;
}

/** Within one thread, the place is looked up once. */
function latestOf(query: ListQuery): SqlCondition {
  const key = threadKeyIn(query);
  return key === undefined
    ? { where: isLatest('runs'), values: [] }
    : { where: isLatest('runs', '?'), values: [key] };
}

function isLatest(of: string, key = `${of}.thread_key`): string {
  return `${of}.place = (SELECT max(place) FROM runs AS o WHERE o.thread_key = ${key})`;
}

function isOnTop(of: string): string {
  return `${of}.parent IS NULL AND (${of}.thread_key IS NULL OR ${isLatest(of)})`;
}

/** The session has no newer run with these labels. */
function newestOfSession(labels: Labels): SqlCondition {
  const own = Object.entries(labels).map(
    (label): SqlCondition => ({ where: hasLabel('newer'), values: label }),
  );
  const where = [
    'newer.session = runs.session AND (newer.created_at, newer.run_id) > (runs.created_at, runs.run_id)',
    isOnTop('newer'),
    ...own.map(condition => condition.where),
  ];
  return {
    where: `(runs.session IS NULL OR NOT EXISTS (SELECT 1 FROM runs AS newer WHERE ${where.join(' AND ')}))`,
    values: own.flatMap(condition => condition.values),
  };
}

function hasLabel(of: string): string {
  return `EXISTS (SELECT 1 FROM labels AS other WHERE other.run = ${of}.run AND other.name = ? AND other.value = ?)`;
}

function pathsOf(query: ListQuery): Path[] {
  const { parent, thread, agent, doubt } = query;
  const status = query.status ?? (doubt === true ? 'waiting' : undefined);
  const id = typeof thread === 'string' ? thread : undefined;
  const key = threadKeyIn(query);
  const ofThread: Path[] =
    key === undefined
      ? []
      : [{ ...BY_AGE, from: 'runs INDEXED BY runs_by_place', where: 'runs.thread_key = ?', values: [key] }];
  const ofColumns = Object.entries(omitUndefined({ parent, thread: id, status, agent })).map(
    ([column, value]): Path => ({
      ...BY_AGE,
      from: `runs INDEXED BY runs_by_${column}`,
      ...isOneOf(`runs.${column}`, value),
    }),
  );
  const ofLabels = Object.entries(query.labels).map(
    (label): Path => ({
      from: 'labels AS found INDEXED BY labels_by_value',
      join: 'CROSS JOIN runs ON runs.run = found.run',
      key: 'found',
      where: 'found.name = ? AND found.value = ?',
      values: label,
    }),
  );
  return [...ofThread, ...ofColumns, ...ofLabels];
}

/** Counts through the indexes alone; reads no record. */
function narrowest(
  sql: Statements,
  paths: readonly Path[],
  widest: Path,
  { isCounted = false }: { isCounted?: boolean } = {},
): Path {
  const [first = widest, ...others] = paths;
  if (others.length === 0 && !isCounted) return first;
  let best = { path: isCounted ? widest : first, count: isCounted ? MOST_COUNTED : Number.POSITIVE_INFINITY };
  for (const path of paths) {
    const { from, where, values } = path;
    const rows = path.counted ?? `SELECT 1 FROM ${from} WHERE ${where}`;
    const counted = `SELECT count(*) AS count FROM (${rows} LIMIT ${MOST_COUNTED})`;
    const count = Number(sql.prepare(counted).get(...values)?.count);
    if (count < best.count) best = { path, count };
  }
  return best.path;
}

function asCondition({ key, where, values }: Path): SqlCondition {
  if (key === 'runs') return { where, values };
  return { where: hasLabel('runs'), values };
}
