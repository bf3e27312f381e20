import { randomUUID } from 'node:crypto';
import type { AppendResult, Redaction } from '../../protocol/store.ts';
import { encodeEvent } from '../journal-text.ts';
import { isHeld } from '../lease.ts';
import { foldText } from '../list-query.ts';
import { drivenRun, isOpen } from '../run-record.ts';
import { readRedaction } from '../sql/redaction.ts';
import { escapeText, type Transaction, toLease } from '../sql/rows.ts';
import { valuesOf, writeSql } from './appends.ts';
import { rewriteRows } from './journal.ts';
import { locateRun } from './locate-run.ts';
import { saveSnapshotAs } from './snapshots.ts';

/** Implements `Store.rewrite` in a transaction. */
export async function rewriteRun(
  query: Transaction,
  s: string,
  runId: string,
  redaction: Redaction,
): Promise<Exclude<AppendResult, { type: 'superseded' }>> {
  const key = escapeText(runId);
  const { after, redactions, blobs, state, progress, event, now, isDead } = redaction;
  const { texts, title } = readRedaction(redaction);
  const written = event && encodeEvent(event);
  const place = await locateRun(query, s, runId, 'FOR UPDATE');
  const lease = toLease(place.row);
  if (isHeld(lease, { now: place.now, isDead }))
    throw drivenRun(runId, { ...lease, until: lease.until - place.now + now }, 'redacted');
  if (after !== place.seq || redactions !== place.redactions) return { type: 'conflict' };
  const { run } = place;
  const sum = texts.size === 0 ? undefined : await rewriteRows(query, s, run, texts);
  await query(`DELETE FROM ${s}.blobs WHERE run = $1 AND digest = ANY($2)`, run, [...blobs]);
  await query(
    `UPDATE ${s}.runs SET last_sum = COALESCE($2, last_sum), progress = $3, title = COALESCE($4, title),
       search = COALESCE($5, search), redactions = redactions + 1, owner = NULL, lease_until = NULL,
       wake_at = CASE WHEN owner IS NULL OR $6 THEN wake_at ELSE LEAST(wake_at, ${s}.now_ms()) END WHERE run = $1`,
    ...[
      run,
      sum ?? null,
      JSON.stringify(progress),
      title ?? null,
      title === undefined ? null : foldText(title),
      !isOpen(place),
    ],
  );
  if (event && written) {
    const guard = { after, epoch: null, redactions: redactions + 1 };
    const change = { ...guard, key, json: written, count: 1, at: event.at, standing: {} };
    await query(writeSql(s), ...valuesOf(change, randomUUID()));
  }
  const seq = after + (event === undefined ? 0 : 1);
  for (const table of ['snapshots', 'deltas']) await query(`DELETE FROM ${s}.${table} WHERE run = $1`, run);
  await saveSnapshotAs(query, s, { key, seq, redactions: redactions + 1, text: JSON.stringify(state) });
  return { type: 'appended', seq };
}
