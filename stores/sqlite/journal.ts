import { EngineError } from '../../protocol/error.ts';
import type { JournalEntry, RunEvent } from '../../protocol/event.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { ClaimRequest, Page, RunRecord, StoredSnapshot } from '../../protocol/store.ts';
import { itemsOf } from '../../protocol/store.ts';
import { decodeEntry, decodeJson, describeDamage, encodeEvent } from '../journal-text.ts';
import { grantLease, type Lease, recordClaim } from '../lease.ts';
import { takePage, WHOLE } from '../page.ts';
import { missingRun } from '../run-record.ts';
import { sumOfEntry, sumOfRecord, sumOfSnapshot } from './checksum.ts';
import { escapeText, type Row, toRecord } from './rows.ts';
import type { Statements } from './statements.ts';

export type Position = { seq: number; epoch: number; sum: string };

/** How long a journal is and who may write it; `row` has the lease. Throws `run-unknown`, and `store-damaged` as `describeRun`. */
export function locateRun(sql: Statements, runId: string): Position & { row: Row } {
  const row = sql.position.get(escapeText(runId));
  if (row === undefined) {
    refuseTraces(sql, runId);
    throw missingRun(runId);
  }
  return { row, seq: Number(row.seq), epoch: Number(row.epoch), sum: String(row.sum) };
}

/** The run's record. Throws `store-damaged` if it makes no sense, or is missing where the run has entries. */
export function describeRun(sql: Statements, runId: string): RunRecord | undefined {
  const row = sql.run.get(escapeText(runId));
  if (row === undefined) refuseTraces(sql, runId);
  return row && toRecord(row);
}

function refuseTraces(sql: Statements, runId: string): void {
  if (sql.trace.get(escapeText(runId)) === undefined) return;
  throw new EngineError(
    'store-damaged',
    `The record of run "${runId}" is missing, but its journal is not. Restore the store from a backup.`,
    { runId },
  );
}

/** The entries behind `after`, all of them or a page. What is not as it was written is `journal-damaged`. */
export function readEntries(sql: Statements, runId: string, after: number, page?: Page): JournalEntry[] {
  return readTexts(sql, runId, after, page).map(({ seq, text, type, at }) => {
    const entry = decodeEntry(runId, seq, text);
    if (entry.event.type === type && entry.event.at === at) return entry;
    throw describeDamage(runId, seq, 'stands beside another type or time than it was written with');
  });
}

/** The entries there are, or the first `limit` of them, as JSON. */
export function readJsonEntries(
  sql: Statements,
  runId: string,
  limit?: number,
): { seq: number; event: JsonValue }[] {
  const page = { ...WHOLE, ...(limit === undefined ? {} : { entries: limit }) };
  return readTexts(sql, runId, 0, page).map(({ seq, text }) => decodeJson(runId, seq, text));
}

/** What a page with a bound on its characters leaves out may be missing: the next read finds out. */
function readTexts(
  sql: Statements,
  runId: string,
  after: number,
  page = WHOLE,
): { seq: number; text: string; type: unknown; at: unknown }[] {
  const { seq: last, sum: lastSum, row } = locateRun(sql, runId);
  const from = Math.max(after, Number(row.base));
  const limit = Math.min(last, from + page.entries);
  if (from >= limit) return [];
  const found = sql.entries.iterate(escapeText(runId), from, limit);
  const rows = takePage(found, page, ({ json }) => String(json).length);
  const gap = rows.findIndex(({ seq }, index) => seq !== from + index + 1);
  const end = from + (gap === -1 ? rows.length : gap);
  const isPage = gap === -1 && rows.length > 0 && page.chars < WHOLE.chars;
  if (end < limit && !isPage) throw describeDamage(runId, end + 1, 'is missing');
  let sum = readSum(sql, runId, from, Number(row.base));
  const texts = rows.map(({ json, type, at, sum: written }, index) => {
    const seq = from + index + 1;
    const text = String(json);
    sum = sumOfEntry(sum, text);
    if (sum !== written) throw describeDamage(runId, seq, 'is not what was written there');
    return { seq, text, type, at };
  });
  if (end === last && sum !== lastSum)
    throw describeDamage(runId, last, 'is not the last one that was written');
  return texts;
}

/** What the entry behind `seq` is bound to. */
function readSum(sql: Statements, runId: string, seq: number, base: number): string {
  const key = escapeText(runId);
  if (seq === base) return sumOfRecord(sql.run.get(key) ?? {});
  const row = sql.entrySum.get(key, seq);
  if (row === undefined) throw describeDamage(runId, seq, 'is missing');
  return String(row.sum);
}

/**
 * The snapshot as it was written. A damaged one is none where the journal has all it had; of a run that was
 * adopted it is `journal-damaged`.
 */
export function readSnapshot(sql: Statements, runId: string): StoredSnapshot | undefined {
  const key = escapeText(runId);
  const row = sql.snapshot.get(key);
  if (row === undefined) return undefined;
  const [seq, base] = [Number(row.seq), Number(row.base)];
  if (row.sum === sumOfSnapshot(key, seq, String(row.state))) {
    return { seq, state: JSON.parse(String(row.state)) };
  }
  if (base === 0) return undefined;
  throw describeDamage(
    runId,
    base,
    'and those before it are only in a snapshot, which is not what was written',
  );
}

/** Writes `events` behind `after`, whose checksum is `sum`; `texts` are their JSON, in the same order. */
export function writeEvents(
  sql: Statements,
  runId: string,
  { seq: after, sum: before }: Pick<Position, 'seq' | 'sum'>,
  events: readonly RunEvent[],
  texts: readonly string[],
): Pick<Position, 'seq' | 'sum'> {
  const key = escapeText(runId);
  let seq = after;
  let sum = before;
  for (const [index, event] of events.entries()) {
    const text = texts[index] ?? '';
    seq += 1;
    sum = sumOfEntry(sum, text);
    insertEntry(sql, runId, [key, seq, event.type, event.at, text, sum]);
    for (const { id } of itemsOf(event)) if (id !== undefined) sql.insertItem.run(escapeText(id), key, seq);
  }
  const last = events.at(-1);
  if (last !== undefined) sql.advance.run(seq, last.at, sum, key);
  return { seq, sum };
}

type EntryRow = [key: string, seq: number, type: string, at: number, json: string, sum: string];

function insertEntry(sql: Statements, runId: string, row: EntryRow): void {
  try {
    sql.insertEvent.run(...row);
  } catch (error) {
    const [key, seq] = row;
    if (sql.entrySum.get(key, seq) === undefined) throw error;
    throw describeDamage(runId, seq, 'is there already, behind the last one that was written');
  }
}

/** Gives the lease and journals the claim. */
export function writeClaim(
  sql: Statements,
  runId: string,
  request: ClaimRequest,
  { epoch, lease, ...end }: Position & { lease?: Lease | undefined },
): { epoch: number; seq: number } {
  const event = recordClaim(request, epoch + 1, lease);
  const { owner, until } = grantLease(request);
  const { seq } = writeEvents(sql, runId, end, [event], [encodeEvent(event)]);
  sql.setLease.run(epoch + 1, JSON.stringify(owner), until, escapeText(runId));
  return { epoch: epoch + 1, seq };
}
