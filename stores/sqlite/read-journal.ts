import type { JournalEntry } from '../../protocol/event.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { Page, StoredSnapshot } from '../../protocol/store.ts';
import { decodeEntry, decodeJson, describeDamage } from '../journal-text.ts';
import { takePage, WHOLE } from '../page.ts';
import { SUM_CHARS, sumOfEntry, sumOfRecord, sumOfSnapshot } from './checksum.ts';
import { locateRun } from './locate-run.ts';
import { escapeText, type Row } from './rows.ts';
import type { Statements } from './statements.ts';

/** The entries behind `after`, all of them or a page. What is not as it was written is `journal-damaged`. */
export function readEntries(sql: Statements, runId: string, after: number, page?: Page): JournalEntry[] {
  return readTexts(sql, runId, after, page).map(({ seq, text, stateHash }) =>
    decodeEntry(runId, seq, text, stateHash),
  );
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

/** An entry as a row has it. */
export type Entry = { seq: number; text: string; sum: string; stateHash: string | undefined };

/** As `readEntries`, before anybody has looked at the words. */
export function readTexts(sql: Statements, runId: string, after: number, page = WHOLE): Entry[] {
  if (page.entries <= 0) return [];
  return takePage(checkEntries(sql, runId, after), page, ({ text }) => text.length);
}

/** Only what is taken is read and checked: what is missing behind it is found by the next read. */
function* checkEntries(sql: Statements, runId: string, after: number): Generator<Entry> {
  const { run, base, seq: last, sum: lastSum } = locateRun(sql, runId);
  const from = Math.max(after, base);
  if (from >= last) return;
  let seq = from;
  let sum: string | undefined;
  for (const found of sql.rows.iterate(run, from, last)) {
    for (const entry of splitRow(runId, seq + 1, found)) {
      if (entry.seq > from) {
        sum ??= readSum(sql, runId, { run, seq: from, base });
        sum = sumOfEntry(sum, entry.text, entry.stateHash);
        if (entry.seq !== seq + 1 || entry.sum !== sum) throw describeChange(runId, seq + 1);
        seq += 1;
        if (seq === last && sum !== lastSum)
          throw describeDamage(runId, last, 'is not the last one that was written');
        yield entry;
      } else if (entry.seq === from) sum = entry.sum;
    }
  }
  if (seq < last) throw describeDamage(runId, seq + 1, 'is missing');
}

/** The entries of a row, in which `next` is looked for. */
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
  return describeDamage(runId, seq, 'is not what was written there');
}

/** What the entry behind `seq` is bound to, where it begins a row. */
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
