// stores/sql: what SQLite and PostgreSQL have in common: how rows are read and written, and their checksums.
import * as z from 'zod';
import { EngineError } from '../../protocol/error.ts';
import type { JournalEntry, RunStarted } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { labelsSchema, titleOf } from '../../protocol/listing/label.ts';
import {
  type AdoptedRun,
  type FeedEntry,
  type FeedPage,
  type FeedQuery,
  type JournalRest,
  type ListFilter,
  type Owner,
  type Progress,
  progressSchema,
  type Redaction,
  type RunLink,
  type RunList,
  type RunRecord,
  type RunStatus,
  type StoredSnapshot,
} from '../../protocol/store.ts';
import { describeDamage, encodeEvent } from '../journal-text.ts';
import type { StoredLease } from '../lease.ts';
import {
  type FeedPlace,
  foldText,
  isInDoubt,
  type ListQuery,
  readFeedQuery,
  type SortValue,
  sessionOf,
  toCursor,
} from '../list-query.ts';
import { findAwaited, type Waiting } from '../plan-deletion.ts';
import { describeStart, threadKeyOf, unknownProgress } from '../run-record.ts';
import { sumOfPart, sumOfSnapshot } from './checksum.ts';

export type Row = Record<string, unknown>;

/** Runs a statement, or those of one transaction, of a database server. */
export type Transaction = (text: string, ...values: readonly unknown[]) => Promise<Row[]>;

const escaped = z.string().transform(unescapeText);

const runRowSchema = z.object({
  run_id: escaped,
  agent: escaped,
  title: z.string().nullable(),
  labels: z.string(),
  status: z.enum(['running', 'waiting', 'finished', 'failed', 'cancelled'] satisfies RunStatus[]),
  created_at: z.number(),
  updated_at: z.number(),
  seq: z.number(),
  epoch: z.number(),
  redactions: z.number(),
  continues: escaped.nullable(),
  thread: escaped.nullable(),
  place: z.number().nullable(),
  parent: escaped.nullable(),
  parent_call: escaped.nullable(),
  fork_of: escaped.nullable(),
  fork_at: z.number().nullable(),
  progress: z.string().nullable(),
  owner: z.string().nullable(),
  lease_until: z.number().nullable(),
  agent_version: escaped.nullable(),
  chart_version: z.number().nullable(),
  chart_hash: escaped.nullable(),
  wake_at: z.number().nullable(),
});

const ownerSchema = z.object({
  id: z.string(),
  host: z.string(),
  pid: z.number(),
  startedAt: z.string(),
  space: z.exactOptional(z.string()),
  instance: z.exactOptional(z.string()),
});

/** Text that a column can hold: lone surrogates and NUL are escaped as in JSON, as is what JSON escapes. */
export function escapeText(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

function escapeOptional(text: string | undefined): string | null {
  return text === undefined ? null : escapeText(text);
}

export function toRecord(row: Row): RunRecord {
  return readSafely(row, () => {
    const run = runRowSchema.parse(row);
    const { parent, parent_call: callId, fork_of, fork_at, chart_version: version, chart_hash: hash } = run;
    const lease = readLease(row);
    return {
      runId: run.run_id,
      agent: run.agent,
      title: run.title ?? '',
      labels: labelsSchema.parse(JSON.parse(run.labels)),
      status: run.status,
      ...(run.progress === null
        ? unknownProgress(run.status)
        : progressSchema.parse(JSON.parse(run.progress))),
      createdAt: run.created_at,
      updatedAt: run.updated_at,
      seq: run.seq,
      epoch: run.epoch,
      redactions: run.redactions,
      ...(run.continues !== null && { continues: run.continues }),
      ...(run.thread !== null && { thread: run.thread }),
      ...(run.place !== null && { place: run.place }),
      ...(parent !== null && callId !== null && { parent: { runId: parent, callId } }),
      ...(fork_of !== null && fork_at !== null && { forkOf: { runId: fork_of, at: fork_at } }),
      ...(lease && { owner: lease.owner, leaseUntil: lease.until }),
      ...(run.agent_version !== null && { agentVersion: run.agent_version }),
      ...(version !== null && hash !== null && { chart: { version, hash } }),
      ...(run.wake_at !== null && { wakeAt: run.wake_at }),
    };
  });
}

/** The runs of a chain by id. */
export function toLinks(rows: readonly Row[]): ReadonlyMap<string, RunLink> {
  const links = new Map<string, RunLink>();
  for (const row of rows) {
    const link = readSafely(row, () => toLink(row));
    links.set(link.runId, link);
  }
  return links;
}

function toLink({ run_id, created_at, redactions, seq, continues }: Row): RunLink {
  const link: RunLink = {
    runId: readText(run_id),
    createdAt: readNumber(created_at),
    redactions: readNumber(redactions),
    seq: readNumber(seq),
  };
  if (continues !== null) link.continues = readText(continues);
  return link;
}

function readText(column: unknown): string {
  if (typeof column === 'string') return unescapeText(column);
  throw new TypeError('A column is not text.');
}

function readNumber(column: unknown): number {
  if (typeof column === 'number') return column;
  throw new TypeError('A column is not a number.');
}

/** Converts the rows of a list. Reports invalid rows to `onDamaged` and leaves them out; without it, throws. */
export function toRecords(rows: readonly Row[], query: Pick<ListFilter, 'onDamaged'>): RunRecord[] {
  return rows.flatMap(row => readOrReport(query, () => [toRecord(row)]));
}

/** `found` has one row more than the page if there is a next page. */
export function toRunList(found: readonly Row[], query: ListQuery, filter: ListFilter): RunList {
  const rows = found.slice(0, query.limit);
  const runs = toRecords(rows, filter);
  const last = rows.length < found.length ? rows.at(-1) : undefined;
  if (last === undefined) return { runs };
  const place = { createdAt: Number(last.created_at), runId: String(last.run_id) };
  return { runs, next: query.cursorAt({ value: last.sorted_by as SortValue, ...place }) };
}

/** SQL with a `?` for each of its values. */
export type SqlCondition = { where: string; values: readonly (string | number)[] };

/** That a column has a text, or one of several. */
export function isOneOf(column: string, texts: string | readonly string[]): SqlCondition {
  const values = [texts].flat().map(escapeText);
  return { where: `${column} IN (${values.map(() => '?').join(', ')})`, values };
}

/** The conditions of a list that no index answers alone. `key` is the table of the list's order, `runs` that of the runs. */
export function rangesOf(
  { doubt, waiting, model, errorCode, since, before }: ListQuery,
  { key, runs }: { key: string; runs: string },
): SqlCondition[] {
  const ranges: SqlCondition[] = [];
  if (since !== undefined) ranges.push({ where: `${key}.created_at >= ?`, values: [since] });
  if (before !== undefined) ranges.push({ where: `${key}.created_at < ?`, values: [before] });
  if (doubt === true)
    ranges.push({ where: `${runs}.status = 'waiting' AND ${runs}.doubted = 1`, values: [] });
  if (model !== undefined) ranges.push({ where: `${runs}.model = ?`, values: [escapeText(model)] });
  if (errorCode !== undefined)
    ranges.push({ where: `${runs}.error_code = ?`, values: [escapeText(errorCode)] });
  if (waiting === false) ranges.push({ where: `${runs}.status <> 'waiting'`, values: [] });
  return ranges;
}

/** The runs after the place of the cursor. `sorted` is what the list is sorted by. */
export function afterOf({ after, sort, order }: ListQuery, key: string, sorted: string): SqlCondition[] {
  if (after === undefined) return [];
  const side = order === 'asc' ? '>' : '<';
  const { value, createdAt, runId } = after;
  const place = `${key}.created_at, ${key}.run_id`;
  return sort === 'created'
    ? [{ where: `(${place}) ${side} (?, ?)`, values: [createdAt, runId] }]
    : [{ where: `(${sorted}, ${place}) ${side} (?, ?, ?)`, values: [value, createdAt, runId] }];
}

/** Returns what `read` returns. Reports its `EngineError` to `onDamaged` and returns nothing; without it, throws. */
function readOrReport<Read>(
  { onDamaged }: Pick<ListFilter, 'onDamaged'>,
  read: () => readonly Read[],
): readonly Read[] {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof EngineError) || onDamaged === undefined) throw error;
    onDamaged(error);
    return [];
  }
}

/** Returns the lease in a row with `owner` and `lease_until`. Throws `store-damaged` for invalid columns. */
export function toLease(row: Row | undefined): StoredLease | undefined {
  return row && readSafely(row, () => readLease(row));
}

function readLease(row: Row): StoredLease | undefined {
  if (row.owner === null || row.lease_until === null) return undefined;
  const owner = readOwner(row.owner);
  return owner && { owner, until: z.number().parse(row.lease_until) };
}

function readOwner(column: unknown): Owner | undefined {
  return column === null ? undefined : ownerSchema.parse(JSON.parse(z.string().parse(column)));
}

/** Whether a column has an owner that `isDead` knows to be gone; false for an invalid column. */
export function hasDeadOwner(column: unknown, isDead: ((owner: Owner) => boolean) | undefined): boolean {
  try {
    const owner = readOwner(column);
    return owner !== undefined && isDead?.(owner) === true;
  } catch {
    return false;
  }
}

/** What JSON writes otherwise between quotes. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what JSON escapes.
const ESCAPED = /["\\\u0000-\u001f]/;

/** Reverses `escapeText`. Throws a `SyntaxError` for text that is not escaped so. */
export function unescapeText(text: string): string {
  return ESCAPED.test(text) ? String(JSON.parse(`"${text}"`)) : text;
}

function readSafely<Result>(row: Row, read: () => Result): Result {
  try {
    return read();
  } catch (cause) {
    throw new EngineError(
      'store-damaged',
      `The record of run "${String(row.run_id)}" has invalid columns. Restore the store from a backup.`,
      { runId: String(row.run_id) },
      { cause },
    );
  }
}

/** A run to insert. Its journal begins after the entry `base`. */
export type NewRun = Omit<AdoptedRun, 'seq' | 'state'> &
  Pick<RunRecord, 'forkOf' | 'continues'> & { base: number };

/** Returns the run that a first event begins. Its journal is complete: `base` is 0. */
export function newRunOf(
  event: RunStarted,
  { status, progress, wakeAt }: Pick<JournalRest, 'status' | 'progress' | 'wakeAt'>,
): NewRun {
  return { ...describeStart(event), status, base: 0, ...omitUndefined({ progress, wakeAt }) };
}

/** What lists sort runs by and add up, as `runs` has it, by column; empty without `progress`. */
export function figuresOf(progress: Progress | undefined) {
  return {
    turns: progress?.turns ?? 0,
    tokens: progress?.tokens ?? 0,
    cached: progress?.cached?.tokens ?? 0,
    cached_of: progress?.cached?.of ?? 0,
    cost: progress?.cost ?? 0,
    active_ms: progress?.activeMs ?? 0,
    doubted: isInDoubt(progress) ? 1 : 0,
    model: escapeOptional(progress?.model),
    error_code: escapeOptional(progress?.errorCode),
  };
}

/** The column that each list is sorted by. */
export const SORT_COLUMNS: Readonly<Record<ListQuery['sort'], string>> = {
  created: 'created_at',
  updated: 'updated_at',
  title: 'search',
  agent: 'agent',
  status: 'status',
  worked: 'active_ms',
  cost: 'cost',
  tokens: 'tokens',
};

export function columnsOf({ chart, parent, forkOf, progress, ...run }: NewRun) {
  return {
    run_id: escapeText(run.runId),
    agent: escapeText(run.agent),
    agent_version: escapeOptional(run.agentVersion),
    chart_version: chart?.version ?? null,
    chart_hash: escapeOptional(chart?.hash),
    title: run.title,
    search: foldText(run.title),
    parent: escapeOptional(parent?.runId),
    parent_call: escapeOptional(parent?.callId),
    fork_of: escapeOptional(forkOf?.runId),
    fork_at: forkOf?.at ?? null,
    continues: escapeOptional(run.continues),
    thread: escapeOptional(run.thread),
    thread_key: threadKeyOf(run) ?? null,
    session: sessionOf(run) ?? null,
    status: run.status,
    ...figuresOf(progress),
    progress: progress === undefined ? null : JSON.stringify(progress),
    created_at: run.createdAt,
    base: run.base,
  };
}

export type Replacements = ReadonlyMap<number, { text: string; stateHash: string | undefined }>;

export function readRedaction({ entries }: Redaction): { texts: Replacements; title: string | undefined } {
  const first = entries.find(({ seq }) => seq === 1)?.event;
  return {
    texts: new Map(
      entries.map(({ seq, event, stateHash }) => [seq, { text: encodeEvent(event), stateHash }]),
    ),
    title: first?.type === 'run.started' ? titleOf(first) : undefined,
  };
}

/** Ignores a damaged snapshot of a complete journal; throws `journal-damaged` for an adopted run. */
export function toSnapshot(runId: string, row: Row | undefined): StoredSnapshot | undefined {
  if (row === undefined) return undefined;
  const [seq, text, base] = [Number(row.seq), String(row.state), Number(row.base)];
  if (row.sum === sumOfSnapshot(escapeText(runId), seq, text)) return { seq, state: JSON.parse(text) };
  if (base === 0) return undefined;
  throw describeDamage(
    runId,
    base,
    'and the entries before it exist only in a snapshot, which does not match its checksum',
  );
}

export function toWaiting(rows: readonly Row[]): Waiting[] {
  return [...Map.groupBy(rows, ({ run_id }) => String(run_id))].map(([key, appends]) => ({
    runId: unescapeText(key),
    awaited: findAwaited(appends.flatMap(({ json }) => String(json).split('\n'))),
  }));
}

export function divideBlob(digest: string, text: string, size: number) {
  const bytes: Uint8Array = Buffer.from(text);
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) => {
    const start = index * size;
    const part = bytes.subarray(start, start + size);
    return { start, bytes: part, sum: sumOfPart(digest, start, part) };
  });
}

export function startOfPart(offset: number, size: number): number {
  return offset - (offset % size);
}

/** `parts` begin with the one that has the byte at `offset`. Throws `store-damaged` for a missing or damaged part. */
export function joinParts(
  parts: readonly Row[],
  blob: { runId: string; digest: string },
  { offset, length, size }: { offset: number; length: number; size: number },
): Uint8Array {
  const { runId, digest } = blob;
  const first = startOfPart(offset, size);
  const pieces = parts.map(({ start, bytes, sum }, index) => {
    const isInPlace = bytes instanceof Uint8Array && Number(start) === first + index * size;
    if (isInPlace && sum === sumOfPart(digest, Number(start), bytes)) return bytes;
    throw new EngineError(
      'store-damaged',
      `The result ${digest} of run "${runId}" does not match its checksum. Restore the store from a backup.`,
      { runId, digest },
    );
  });
  return new Uint8Array(Buffer.concat(pieces).subarray(offset - first, offset - first + length));
}

const rowSchema = z.object({ position: z.coerce.number(), run_id: z.string(), seq: z.coerce.number() });

/** `rows`: the appends from the place of the query on. `read` returns those after `from`; `left` are needed. */
export function fillPage(
  query: FeedQuery,
  rows: Iterable<Row>,
  read: (row: Row, wanted: { runId: string; from: number; left: number }) => JournalEntry[],
): FeedPage {
  const { limit, ...after } = readFeedQuery(query);
  const entries: FeedEntry[] = [];
  let last: FeedPlace = after;
  for (const row of rows) {
    const { position, run_id, seq } = rowSchema.parse(row);
    const from = position === after.position ? after.seq : 0;
    const left = limit - entries.length;
    if (seq <= from) continue;
    if (left <= 0) break;
    const runId = unescapeText(run_id);
    const found = readOrReport(query, () => read(row, { runId, from, left })).slice(0, left);
    for (const { seq, event } of found)
      entries.push({ runId, seq, event, cursor: toCursor({ position, seq }) });
    last = { position, seq: found.at(-1)?.seq ?? seq };
  }
  return { entries, next: toCursor(last) };
}

export function cursorOf(row: Row | undefined): string {
  return toCursor({ position: Number(row?.position ?? 0), seq: Number(row?.seq ?? 0) });
}

export function readHolder(row: Row | undefined): StoredLease | undefined {
  const owner = readOwner(row?.owner ?? null);
  return owner && { owner, until: Number(row?.until) };
}
