import type { JournalEntry, RunEvent } from '../../protocol/event.ts';
import type { ClaimRequest, RunRecord } from '../../protocol/store.ts';
import { itemsOf } from '../../protocol/store.ts';
import { decodeEntry, describeDamage, encodeEvent } from '../journal-text.ts';
import { grantLease, recordClaim } from '../lease.ts';
import { missingRun } from '../run-record.ts';
import { escapeText, type Row, toRecord } from './rows.ts';
import type { Statements } from './statements.ts';

export type Position = { seq: number; epoch: number };

/** How long a journal is and who may write it; `row` has the lease. Throws `run-unknown`. */
export function locateRun(sql: Statements, runId: string): Position & { row: Row } {
  const row = sql.position.get(escapeText(runId));
  if (row === undefined) throw missingRun(runId);
  return { row, seq: Number(row.seq), epoch: Number(row.epoch) };
}

export function describeRun(sql: Statements, runId: string): RunRecord | undefined {
  const row = sql.run.get(escapeText(runId));
  return row && toRecord(row);
}

/** The entries behind `after`, all of them: a gap or a missing end is `journal-damaged`. */
export function readEntries(sql: Statements, runId: string, after: number): JournalEntry[] {
  const { seq: end, row } = locateRun(sql, runId);
  const from = Math.max(after, Number(row.base));
  if (from >= end) return [];
  const rows = sql.entries.all(escapeText(runId), from, end);
  const gap = rows.findIndex(({ seq }, index) => seq !== from + index + 1);
  const whole = from + (gap === -1 ? rows.length : gap);
  if (whole < end) throw describeDamage(runId, whole + 1, 'is missing');
  return rows.map(({ json }, index) => decodeEntry(runId, from + index + 1, String(json)));
}

/** Writes `events` behind `after`; `texts` are their JSON, in the same order. */
export function writeEvents(
  sql: Statements,
  runId: string,
  after: number,
  events: readonly RunEvent[],
  texts: readonly string[],
): void {
  const key = escapeText(runId);
  let seq = after;
  for (const [index, event] of events.entries()) {
    seq += 1;
    sql.insertEvent.run(key, seq, event.type, event.at, texts[index] ?? null);
    for (const { id } of itemsOf(event)) if (id !== undefined) sql.insertItem.run(escapeText(id), key, seq);
  }
  const last = events.at(-1);
  if (last !== undefined) sql.advance.run(seq, last.at, key);
}

/** Gives the lease and journals the claim. */
export function writeClaim(
  sql: Statements,
  runId: string,
  request: ClaimRequest,
  { seq, epoch }: Position,
): Position {
  const event = recordClaim(request, epoch + 1);
  const { owner, until } = grantLease(request);
  writeEvents(sql, runId, seq, [event], [encodeEvent(event)]);
  sql.setLease.run(epoch + 1, JSON.stringify(owner), until, escapeText(runId));
  return { epoch: epoch + 1, seq: seq + 1 };
}
