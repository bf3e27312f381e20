// stores/sqlite: the operations of `sqlite()`, a group of statements a file. `statements.ts` holds the SQL, `connection.ts`
// its commits, `open-database.ts` and `schema.ts` the tables.

import type { JournalEntry, RunEvent } from '../../protocol/event.ts';
import { cutWords, MOST_WORDS } from '../../protocol/listing/words.ts';
import {
  type ClaimRequest,
  changedRun,
  type Page,
  type Progress,
  type Standing,
  type StandingChange,
} from '../../protocol/store.ts';
import { decodeEntry, describeChange, describeDamage } from '../journal-text.ts';
import { grantLease, nextWakeAt } from '../lease.ts';
import { takePage, WHOLE } from '../list-query.ts';
import { assertUnredacted } from '../run-record.ts';
import { SUM_CHARS, sumOfEntry, sumOfRecord } from '../sql/checksum.ts';
import { escapeText, figuresOf, type Replacements, type Row } from '../sql/rows.ts';
import { indexTexts, locateRunRow, type Position } from './runs.ts';
import type { Statements } from './statements.ts';

/** The approximate maximum size of one row: what a reader of one entry has to read at most. */
const ROW: Page = { ...WHOLE, chars: 64 * 1024 };

/** `texts` are the JSON of `events`. Throws `journal-damaged` if an entry is already there. */
export function writeEvents(
  sql: Statements,
  runId: string,
  position: Position,
  events: readonly RunEvent[],
  texts: readonly string[],
  standing: Partial<Standing> = {},
): Position {
  const { status = position.status, stateHash, progress, words } = standing;
  const { run } = position;
  const last = events.at(-1);
  if (last === undefined) {
    if (status !== position.status) sql.setStatus.run(status, run);
    if (progress !== undefined) writeProgress(sql, run, progress);
    return { ...position, status };
  }
  if (position.hasRowsPastEnd) {
    const next = position.seq + 1;
    throw describeDamage(runId, next, 'already exists, after the recorded end of the journal');
  }
  const end = writeRows(sql, position, texts, stateHash);
  sql.advance.run(end.seq, last.at, end.sum, run);
  if (status !== position.status) sql.setStatus.run(status, run);
  if (progress !== undefined) writeProgress(sql, run, progress);
  if (words !== undefined) writeWords(sql, run, end.seq, words);
  return { ...position, ...end, status };
}

/** Adds words to those of a run, of the commit that ended at `seq`. */
function writeWords(sql: Statements, run: number, seq: number, given: string): void {
  const words = cutWords(given);
  if (words === '') return;
  sql.addText.run(run, seq, words.length, words);
  if (Number(sql.charsOfTexts.get(run, run)?.chars) > MOST_WORDS) sql.trimTexts.run(run, run);
  indexTexts(sql);
}

/** Replaces the words of a run. `seq`: the last entry. */
export function rewriteWords(sql: Statements, run: number, seq: number, words: string): void {
  sql.dropTexts.run(run, 1, run);
  writeWords(sql, run, seq, words);
  indexTexts(sql, { all: true });
}

function writeProgress(sql: Statements, run: number, progress: Progress): void {
  sql.setProgress.run({ ...figuresOf(progress), progress: JSON.stringify(progress), run });
}

/** Records when the run and its parent have to be driven again, after an append at `now`, in ms since the epoch. */
export function writeWakeUps(
  sql: Statements,
  { run, wakeAt: recorded }: Position,
  { wakeAt, wakes }: { wakeAt?: number | undefined; wakes?: string | undefined },
  now: number,
): void {
  const next = nextWakeAt(recorded, wakeAt, now);
  if (next !== recorded) sql.setWakeAt.run(next ?? null, run);
  if (wakes !== undefined) sql.wake.run(now, now, escapeText(wakes));
}

/** Changes the run's record at `now`, in ms since the epoch. Throws `refused` if the run is not as expected. */
export function changeStanding(
  sql: Statements,
  { runId, after, epoch, status, wakeAt }: StandingChange,
  now: number,
): void {
  const position = locateRunRow(sql, runId);
  if (position.seq !== after || position.epoch !== epoch) throw changedRun(runId);
  sql.setStatus.run(status, position.run);
  writeWakeUps(sql, position, { wakeAt }, now);
}

/** Writes one row, or several for a long append. `stateHash` belongs to the last entry. */
function writeRows(
  sql: Statements,
  { run, seq, sum }: Position,
  texts: readonly string[],
  stateHash: string | undefined,
): { seq: number; sum: string } {
  const end = { seq, sum };
  const last = seq + texts.length;
  for (const left = texts.values(); ; ) {
    const row = takePage(left, ROW, ({ length }) => length);
    if (row.length === 0) return end;
    let sums = '';
    let hash: string | undefined;
    for (const text of row) {
      end.seq += 1;
      if (end.seq === last) hash = stateHash;
      end.sum = sumOfEntry(end.sum, text, hash);
      sums += end.sum;
    }
    sql.insertRow.run(run, end.seq, hash ?? null, sums, row.join('\n'));
  }
}

export function writeLease(sql: Statements, run: number, request: ClaimRequest, epoch: number): void {
  const { owner, until } = grantLease(request);
  sql.setLease.run(epoch, JSON.stringify(owner), until, request.now, run);
}

/** Returns the entries after `after`, all or one page. Throws `journal-damaged` for an entry with a wrong checksum. */
export function readEntryRows(sql: Statements, runId: string, after: number, page?: Page): JournalEntry[] {
  return readRawEntries(sql, runId, after, page).map(({ seq, text, stateHash }) =>
    decodeEntry(runId, seq, text, stateHash),
  );
}

type Entry = { seq: number; text: string; sum: string; stateHash: string | undefined };

export function readRawEntries(sql: Statements, runId: string, after: number, page = WHOLE): Entry[] {
  if (page.entries <= 0) return [];
  return takePage(checkEntries(sql, runId, after, page.redactions), page, ({ text }) => text.length);
}

/** Reads and checks lazily; missing entries after the consumed ones are detected by the next read. */
function* checkEntries(
  sql: Statements,
  runId: string,
  after: number,
  known: number | undefined,
): Generator<Entry> {
  const position = locateRunRow(sql, runId);
  assertUnredacted(runId, position, known);
  const { run, base, seq: last, sum: lastSum } = position;
  const from = Math.max(after, base);
  if (from >= last) return;
  let seq = from;
  let sum: string | undefined;
  for (const found of sql.rows.iterate(run, from, run, last)) {
    for (const entry of splitRow(runId, seq + 1, found)) {
      if (entry.seq > from) {
        sum ??= readSum(sql, runId, { run, seq: from, base });
        sum = sumOfEntry(sum, entry.text, entry.stateHash);
        if (entry.seq !== seq + 1 || entry.sum !== sum) throw describeChange(runId, seq + 1);
        seq += 1;
        if (seq === last && sum !== lastSum)
          throw describeDamage(runId, last, 'is not the last entry that was written');
        yield entry;
      } else if (entry.seq === from) sum = entry.sum;
    }
  }
  if (seq < last) throw describeDamage(runId, seq + 1, 'is missing');
}

function splitRow(runId: string, next: number, row: Row): Entry[] {
  const sums = String(row.sums);
  const json = String(row.json);
  const texts = sums.length === SUM_CHARS ? [json] : json.split('\n');
  const first = Number(row.seq) - texts.length + 1;
  if (sums.length !== texts.length * SUM_CHARS) throw describeChange(runId, next);
  if (first > next) throw describeDamage(runId, next, 'is missing');
  return texts.map((text, index) => ({
    seq: first + index,
    text,
    sum: sums.slice(index * SUM_CHARS, (index + 1) * SUM_CHARS),
    stateHash: index < texts.length - 1 || row.state_hash === null ? undefined : String(row.state_hash),
  }));
}

/** Returns the checksum at `seq`, to which the next entry is bound; `seq` ends a row or is `base`. */
function readSum(
  sql: Statements,
  runId: string,
  { run, seq, base }: { run: number; seq: number; base: number },
): string {
  if (seq === base) return sumOfRecord(sql.run.get(escapeText(runId)) ?? {});
  const row = sql.rowThatEnds.get(run, seq);
  if (row === undefined) throw describeDamage(runId, seq, 'is missing');
  return String(row.sums).slice(-SUM_CHARS);
}

/** Verifies the checksums, replaces entries by seq, and recomputes all checksums from the first changed one on. */
export function rewriteEntries(
  sql: Statements,
  runId: string,
  position: Position,
  changed: Replacements,
): Position {
  if (changed.size === 0) return position;
  const { run, base, seq: last } = position;
  const before = Math.min(...changed.keys()) - 1;
  readRawEntries(sql, runId, before);
  let sum = '';
  let next = before + 1;
  for (const found of sql.rows.all(run, before, run, last)) {
    const entries = splitRow(runId, next, found);
    const written = entries.map(entry => ({ ...entry, ...changed.get(entry.seq) }));
    next = Number(found.seq) + 1;
    let sums = '';
    for (const entry of written) {
      if (sum === '' && entry.seq === before + 1) sum = readSum(sql, runId, { run, seq: before, base });
      sum = entry.seq <= before ? entry.sum : sumOfEntry(sum, entry.text, entry.stateHash);
      sums += sum;
    }
    const json = written.map(({ text }) => text).join('\n');
    sql.rewriteRow.run(written.at(-1)?.stateHash ?? null, sums, json, run, Number(found.seq));
  }
  sql.rewriteEnd.run(sum, run);
  return { ...position, sum };
}
