import { randomUUID } from 'node:crypto';
import type { JournalEntry } from '../../protocol/event.ts';
import { type AppendResult, isOpen, type Page, type Redaction } from '../../protocol/store.ts';
import { decodeEntry, describeChange, describeDamage } from '../journal-text.ts';
import { assertUndriven } from '../lease.ts';
import { foldText, takePage, WHOLE } from '../list-query.ts';
import { assertUnredacted, missingRun } from '../run-record.ts';
import { sumOfEntry } from '../sql/checksum.ts';
import {
  escapeText,
  figuresOf,
  type Replacements,
  type Row,
  readRedaction,
  type Transaction,
  toLease,
} from '../sql/rows.ts';
import { appendSql, jsonTextOf, setProgress } from './appends.ts';
import { locateRun, saveSnapshotAs } from './runs.ts';
import { readNames, rewriteTexts } from './texts.ts';

export type Entry = { seq: number; text: string; stateHash: string | undefined };

const MOST = Number.MAX_SAFE_INTEGER;

/** A journal row, with the last seq from the run's record; one row without `seq` if there are no entries to read. */
const SELECT_ROWS = `SELECT r.base, r.seq AS last, r.last_sum, r.redactions, a.* FROM @runs r
  LEFT JOIN LATERAL (
    SELECT p.* FROM (
      SELECT seq, count, chars, prior, sum, state_hash, json, sum(chars) OVER (ORDER BY seq) - chars AS chars_before
      FROM @appends WHERE run = r.run AND seq > $2 ORDER BY seq LIMIT $3
    ) p WHERE p.chars_before < $4 ORDER BY p.seq
  ) a ON true WHERE r.run_id = $1 ORDER BY a.seq`;

/** Throws `run-unknown`, and `journal-damaged` for missing rows and wrong checksums. */
export async function readTexts(
  query: Transaction,
  runId: string,
  after: number,
  page: Page = WHOLE,
): Promise<Entry[]> {
  if (page.entries <= 0) return [];
  const limits = [page.entries, page.chars].map(limit => Math.min(limit, MOST));
  const rows = await query(SELECT_ROWS, escapeText(runId), after, ...limits);
  const [first] = rows;
  if (first === undefined) throw missingRun(runId);
  assertUnredacted(runId, { redactions: Number(first.redactions) }, page.redactions);
  const chars = rows.reduce((sum, row) => sum + Number(row.chars ?? 0), 0);
  const isCut = rows.length >= page.entries || chars >= page.chars;
  const entries = checkRows(runId, rows, { from: Math.max(after, Number(first.base)), isCut });
  return takePage(entries, page, ({ text }) => text.length);
}

export function decodeEntries(runId: string, entries: readonly Entry[]): JournalEntry[] {
  return entries.map(({ seq, text, stateHash }) => decodeEntry(runId, seq, text, stateHash));
}

/** Splits rows into their entries after `from`. `isCut`: the journal may continue after them. */
function checkRows(
  runId: string,
  rows: readonly Row[],
  { from, isCut }: { from: number; isCut: boolean },
): Entry[] {
  const entries: Entry[] = [];
  const end = Number(rows[0]?.last);
  let next = from + 1;
  let prior: string | undefined;
  for (const row of rows) {
    if (row.seq === null) break;
    const [seq, count] = [Number(row.seq), Number(row.count)];
    if (seq - count + 1 > next) throw describeDamage(runId, next, 'is missing');
    if (prior !== undefined && prior !== row.prior) throw describeChange(runId, next);
    entries.push(...readRow(runId, row).filter(entry => entry.seq > from));
    prior = String(row.sum);
    next = seq + 1;
  }
  if (next === end + 1 && prior !== undefined && prior !== rows[0]?.last_sum)
    throw describeDamage(runId, end, 'is not the last entry that was written');
  if (next <= end && (!isCut || entries.length === 0)) throw describeDamage(runId, next, 'is missing');
  return entries;
}

export function readRow(runId: string, row: Row): Entry[] {
  const [seq, count, json] = [Number(row.seq), Number(row.count), String(row.json)];
  const stateHash = row.state_hash === null ? undefined : String(row.state_hash);
  const first = seq - count + 1;
  const texts = json.split('\n');
  if (texts.length !== count || sumOfEntry(String(row.prior), json, stateHash) !== row.sum)
    throw describeChange(runId, first);
  return texts.map((text, index) => ({
    seq: first + index,
    text,
    stateHash: first + index === seq ? stateHash : undefined,
  }));
}

/** Replaces the JSON and the state hashes of entries, by seq, and returns the checksum of the journal's new end. */
async function rewriteRows(
  query: Transaction,
  run: number,
  changed: Replacements,
): Promise<string | undefined> {
  const first = Math.min(...changed.keys());
  const rows = await query(
    `SELECT seq, count, prior, state_hash, json FROM @appends WHERE run = $1 AND seq >= $2 ORDER BY seq`,
    ...[run, first],
  );
  let sum: string | undefined;
  for (const row of rows) {
    const [seq, count] = [Number(row.seq), Number(row.count)];
    const texts = String(row.json).split('\n');
    const json = texts.map((text, index) => changed.get(seq - count + 1 + index)?.text ?? text).join('\n');
    const hash =
      changed.get(seq)?.stateHash ?? (row.state_hash === null ? undefined : String(row.state_hash));
    const prior = sum ?? String(row.prior);
    sum = sumOfEntry(prior, json, hash);
    await query(
      `UPDATE @appends SET json = $3, chars = $4, prior = $5, sum = $6, state_hash = $7 WHERE run = $1 AND seq = $2`,
      ...[run, seq, json, json.length, prior, sum, hash ?? null],
    );
  }
  return sum;
}

/** Implements `Store.rewrite` in a transaction. Throws `run-unknown`, and `refused` while the run is driven. */
export async function rewriteRun(
  query: Transaction,
  runId: string,
  redaction: Redaction,
): Promise<Exclude<AppendResult, { type: 'superseded' }>> {
  const key = escapeText(runId);
  const { after, redactions, blobs, state, progress, words = '', event, now, isDead } = redaction;
  const { texts, title } = readRedaction(redaction);
  const place = await locateRun(query, runId, 'FOR UPDATE');
  const lease = toLease(place.row);
  const until = (lease?.until ?? 0) - place.now + now;
  assertUndriven(runId, lease && { ...lease, until }, { now, isDead }, 'redacted');
  if (after !== place.seq || redactions !== place.redactions) return { type: 'conflict' };
  const { run } = place;
  const sum = texts.size === 0 ? undefined : await rewriteRows(query, run, texts);
  await query(`DELETE FROM @blobs WHERE run = $1 AND digest = ANY($2)`, run, [...blobs]);
  await query(
    `UPDATE @runs r SET last_sum = COALESCE($2, last_sum), ${setProgress('$3', '$7')}, title = COALESCE($4, title),
       search = COALESCE($5, search), redactions = redactions + 1, owner = NULL, lease_until = NULL,
       wake_at = CASE WHEN owner IS NULL OR $6 THEN wake_at ELSE LEAST(wake_at, @now_ms()) END WHERE run = $1`,
    ...[run, sum ?? null, JSON.stringify(progress), title ?? null],
    ...[title === undefined ? null : foldText(title), !isOpen(place), jsonTextOf(figuresOf(progress))],
  );
  if (event) {
    const guard = { key, commit: randomUUID(), after, epoch: null, redactions: redactions + 1 };
    const [text, values] = appendSql(guard, [event], {});
    await query(text, ...values);
  }
  const seq = after + (event === undefined ? 0 : 1);
  const names = title === undefined ? undefined : await readNames(query, run);
  await rewriteTexts(query, { run, seq, words }, names);
  for (const table of ['snapshots', 'deltas']) await query(`DELETE FROM @${table} WHERE run = $1`, run);
  await saveSnapshotAs(query, { key, seq, redactions: redactions + 1, text: JSON.stringify(state) });
  return { type: 'appended', seq };
}
