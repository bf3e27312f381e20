import type { JournalEntry } from '../../protocol/event.ts';
import { type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { Page } from '../../protocol/store.ts';
import { decodeEntry, decodeJson, describeDamage } from '../journal-text.ts';
import { takePage, WHOLE } from '../page.ts';
import { assertUnredacted } from '../run-record.ts';
import { SUM_CHARS, sumOfEntry, sumOfRecord } from '../sql/checksum.ts';
import { escapeText, type Row } from '../sql/rows.ts';
import { locateRun } from './locate-run.ts';
import type { Statements } from './statements.ts';

/** Returns the entries after `after`, all or one page. Throws `journal-damaged` for an entry with a wrong checksum. */
export function readEntries(sql: Statements, runId: string, after: number, page?: Page): JournalEntry[] {
  return readTexts(sql, runId, after, page).map(({ seq, text, stateHash }) =>
    decodeEntry(runId, seq, text, stateHash),
  );
}

/** Returns all entries, or the first `limit`, as JSON. */
export function readJsonEntries(
  sql: Statements,
  runId: string,
  limit?: number,
): { seq: number; event: JsonValue }[] {
  const page = { ...WHOLE, ...omitUndefined({ entries: limit }) };
  return readTexts(sql, runId, 0, page).map(({ seq, text }) => decodeJson(runId, seq, text));
}

/** An entry as stored in a row. */
export type Entry = { seq: number; text: string; sum: string; stateHash: string | undefined };

/** Like `readEntries`, but without parsing the events. */
export function readTexts(sql: Statements, runId: string, after: number, page = WHOLE): Entry[] {
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
  const position = locateRun(sql, runId);
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

/** Splits a row into its entries. Throws `journal-damaged` if `next` is missing before the row. */
export function splitRow(runId: string, next: number, row: Row): Entry[] {
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

function describeChange(runId: string, seq: number): Error {
  return describeDamage(runId, seq, 'does not match its checksum');
}

/** Returns the checksum at `seq`, to which the next entry is bound; `seq` ends a row or is `base`. */
export function readSum(
  sql: Statements,
  runId: string,
  { run, seq, base }: { run: number; seq: number; base: number },
): string {
  if (seq === base) return sumOfRecord(sql.run.get(escapeText(runId)) ?? {});
  const row = sql.rowThatEnds.get(run, seq);
  if (row === undefined) throw describeDamage(runId, seq, 'is missing');
  return String(row.sums).slice(-SUM_CHARS);
}
