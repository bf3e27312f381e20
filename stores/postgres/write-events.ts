import type { Standing } from '../../protocol/store.ts';
import { escapeText, type Row, type Transaction } from '../rows.ts';
import { missingRun } from '../run-record.ts';

/** Where a run is: what a claim and a deletion decide on. `now` is the server's time. */
export type Place = { run: number; seq: number; epoch: number; now: number; row: Row };

/** An append: `epoch` is null for an input, `at` is the time of the last event. */
export type Change = {
  key: string;
  after: number;
  epoch: number | null;
  json: string;
  count: number;
  at: number;
  standing: Partial<Standing>;
};

/** Returns the place of a run; `lock` keeps it until the transaction ends. Throws `run-unknown`. */
export async function locateRun(query: Transaction, s: string, runId: string, lock = ''): Promise<Place> {
  const [row] = await query(
    `SELECT run_id, run, seq, epoch, owner, lease_until, ${s}.now_ms() AS now FROM ${s}.runs WHERE run_id = $1 ${lock}`,
    escapeText(runId),
  );
  if (row === undefined) throw missingRun(runId);
  const [run = 0, seq = 0, epoch = 0, now = 0] = [row.run, row.seq, row.epoch, row.now].map(Number);
  return { run, seq, epoch, now, row };
}

/** The statement of an append. `lease` sets further columns; `condition` must hold too. */
export function writeSql(s: string, lease: string, condition = ''): string {
  return `WITH old AS (
      SELECT run, last_sum FROM ${s}.runs
      WHERE run_id = $1 AND seq = $2 AND ($3::int8 IS NULL OR epoch = $3) ${condition} FOR UPDATE),
    summed AS (
      SELECT run, last_sum AS prior,
        left(encode(sha256(convert_to(last_sum || $4::text || COALESCE($5::text, ''), 'UTF8')), 'hex'), 16) AS sum
      FROM old),
    moved AS (
      UPDATE ${s}.runs r SET seq = $2::int8 + $6::int4, last_sum = summed.sum, updated_at = $7,
        status = COALESCE($8, status), progress = COALESCE($9, progress)${lease}
      FROM summed WHERE r.run = summed.run)
    INSERT INTO ${s}.appends (run, seq, count, chars, position, prior, sum, state_hash, commit_id, json)
    SELECT run, $2::int8 + $6::int4, $6, $10, ${s}.position_of(pg_current_xact_id()), prior, sum, $5, $11, $4 FROM summed RETURNING seq`;
}

/** The parameters $1 to $11 of that statement. */
export function valuesOf(
  { key, after, epoch, json, count, at, standing }: Change,
  commit: string,
): unknown[] {
  const { status = null, progress, stateHash = null } = standing;
  const progressText = progress === undefined ? null : JSON.stringify(progress);
  return [key, after, epoch, json, stateHash, count, at, status, progressText, json.length, commit];
}

/** Changes what the record says about a run, without an entry. Returns whether the run is where it was expected. */
export async function setStanding(
  query: Transaction,
  s: string,
  { key, after, epoch, standing }: Pick<Change, 'key' | 'after' | 'epoch' | 'standing'>,
): Promise<boolean> {
  const { status = null, progress } = standing;
  const set = await query(
    `UPDATE ${s}.runs SET status = COALESCE($4, status), progress = COALESCE($5, progress)
     WHERE run_id = $1 AND seq = $2 AND ($3::int8 IS NULL OR epoch = $3) RETURNING 1`,
    ...[key, after, epoch, status, progress === undefined ? null : JSON.stringify(progress)],
  );
  return set.length > 0;
}
