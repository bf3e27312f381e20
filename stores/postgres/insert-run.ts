import type { RunEvent, RunStarted } from '../../protocol/event.ts';
import type { AdoptedRun, ClaimRequest, JournalRest } from '../../protocol/store.ts';
import { encodeEvent } from '../journal-text.ts';
import { sumOfEntry, sumOfRecord, sumOfSnapshot } from '../sql/checksum.ts';
import { columnsOf, newRunOf } from '../sql/new-run.ts';
import { escapeText, type Row } from '../sql/rows.ts';
import { notifyWork } from './listener.ts';

type Statement = [text: string, values: readonly unknown[]];

type Created = {
  event: RunStarted;
  rest: JournalRest;
  /** All events of the journal, `event` first. */
  events: readonly RunEvent[];
  claim: ClaimRequest | undefined;
  commit: string;
  /** How long until the run has to be driven again, in ms. */
  wakeInMs: number | undefined;
};

/**
 * The statement that creates a run with its first events. It returns a row, or none if the run exists, or its source was
 * redacted another number of times.
 */
export function insertRun(s: string, { event, rest, events, claim, commit, wakeInMs }: Created): Statement {
  const json = events.map(encodeEvent).join('\n');
  const run = newRunOf(event, rest);
  const shared = columnsOf(run);
  const prior = sumOfRecord(shared);
  const sum = sumOfEntry(prior, json);
  const columns = {
    ...shared,
    labels: JSON.stringify(run.labels),
    updated_at: events.at(-1)?.at ?? event.at,
    seq: events.length,
    last_sum: sum,
    epoch: claim === undefined ? 0 : 1,
    owner: claim === undefined ? null : JSON.stringify(claim.owner),
  };
  const { source } = rest;
  const last = 9 + Object.keys(columns).length;
  const found = `source AS (
      SELECT run FROM ${s}.runs WHERE run_id = $${last + 1} AND redactions = $${last + 2} FOR SHARE),
    `;
  const text = `WITH ${source ? found : ''}made AS (${insertSql(s, columns, 10, source && 'source')}),
    copied AS (
      INSERT INTO ${s}.blobs (run, digest, start, sum, bytes)
      SELECT made.run, b.digest, b.start, b.sum, b.bytes FROM made, ${s}.runs o JOIN ${s}.blobs b ON b.run = o.run
      WHERE o.run_id = $3)
    INSERT INTO ${s}.appends (run, seq, count, chars, position, prior, sum, commit_id, json)
    SELECT run, $4::int8, $4::int4, $5, ${s}.position_of(pg_current_xact_id()), $6, $7, $8, $9 FROM made
    RETURNING run, ${claim === undefined ? notifyWork(s) : 'NULL'} AS told`;
  const values = [shared.fork_of, events.length, json.length, prior, sum, commit, json];
  const compared = source ? [escapeText(source.runId), source.redactions] : [];
  return [
    text,
    [claim?.leaseMs ?? null, wakeInMs ?? null, ...values, ...Object.values(columns), ...compared],
  ];
}

/** The statement that imports a run with its snapshot. It returns a row, or none if the run exists. */
export function insertAdopted(
  s: string,
  { seq, state, ...run }: AdoptedRun,
  wakeInMs: number | undefined,
): Statement {
  const shared = columnsOf({ ...run, base: seq });
  const columns = {
    ...shared,
    labels: JSON.stringify(run.labels),
    updated_at: run.createdAt,
    seq,
    last_sum: sumOfRecord(shared),
    epoch: 0,
  };
  const text = `WITH made AS (${insertSql(s, columns, 6)})
    INSERT INTO ${s}.snapshots (run, seq, sum, state) SELECT run, $3, $4, $5 FROM made RETURNING run`;
  const stateText = JSON.stringify(state);
  const values = [seq, sumOfSnapshot(shared.run_id, seq, stateText), stateText];
  return [text, [null, wakeInMs ?? null, ...values, ...Object.values(columns)]];
}

/**
 * Inserts a run, with the length of its lease as $1, `wakeInMs` as $2, and its columns from the parameter `first` on. Does
 * nothing if the query `source` has no row.
 */
function insertSql(s: string, columns: Row, first: number, source?: string): string {
  const names = Object.keys(columns);
  const parameters = names.map((_, index) => `$${first + index}`);
  return `INSERT INTO ${s}.runs (${names.join(', ')}, lease_until, wake_at)
      SELECT ${parameters.join(', ')}, ${s}.now_ms() + $1::float8, ${s}.now_ms() + $2::float8
      ${source === undefined ? '' : `FROM ${source}`}
      ON CONFLICT (run_id) DO NOTHING RETURNING run`;
}
