import type { RunStatus } from '../../protocol/store.ts';
import { missingRun } from '../run-record.ts';
import { escapeText, type Row, type Transaction } from '../sql/rows.ts';

/** Where a run is: what a claim and a deletion decide on. `now` is the server's time. */
export type Place = {
  run: number;
  seq: number;
  epoch: number;
  redactions: number;
  now: number;
  status: RunStatus;
  row: Row;
};

/** Returns the place of a run; `lock` keeps it until the transaction ends. Throws `run-unknown`. */
export async function locateRun(query: Transaction, s: string, runId: string, lock = ''): Promise<Place> {
  const [row] = await query(
    `SELECT run_id, run, seq, epoch, redactions, status, owner, lease_until, ${s}.now_ms() AS now FROM ${s}.runs WHERE run_id = $1 ${lock}`,
    escapeText(runId),
  );
  if (row === undefined) throw missingRun(runId);
  const numbers = [row.run, row.seq, row.epoch, row.redactions, row.now].map(Number);
  const [run = 0, seq = 0, epoch = 0, redactions = 0, now = 0] = numbers;
  return { run, seq, epoch, redactions, now, status: String(row.status) as RunStatus, row };
}
