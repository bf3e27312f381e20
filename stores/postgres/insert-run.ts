import type { RunEvent, RunStarted } from '../../protocol/event.ts';
import { titleOf } from '../../protocol/listing/label.ts';
import type { AdoptedRun, ClaimRequest, Progress, RunStatus } from '../../protocol/store.ts';
import { sumOfEntry, sumOfRecord, sumOfSnapshot } from '../checksum.ts';
import { encodeEvent } from '../journal-text.ts';
import { foldText } from '../list-query.ts';
import { escapeOptional, escapeText } from '../rows.ts';
import { notifyWork } from './listener.ts';

type Statement = [text: string, values: readonly unknown[]];

type NewRun = {
  event: RunStarted;
  /** All events of the journal, `event` first. */
  events: readonly RunEvent[];
  status: RunStatus;
  progress: Progress | undefined;
  /** How long until the run has to be driven again, in ms. */
  wakeInMs: number | undefined;
  claim: ClaimRequest | undefined;
  commit: string;
};

/** The statement that creates a run with its first events. It returns a row, or none if the run exists. */
export function insertRun(
  s: string,
  { event, events, status, progress, wakeInMs, claim, commit }: NewRun,
): Statement {
  const { runId, at, continues, parent, forkOf, chart, agent, labels = {} } = event;
  const json = events.map(encodeEvent).join('\n');
  const title = titleOf(event);
  const record = {
    run_id: escapeText(runId),
    agent: escapeText(agent.name),
    created_at: at,
    base: 0,
    continues: escapeOptional(continues),
  };
  const prior = sumOfRecord(record);
  const text = `WITH made AS (
      INSERT INTO ${s}.runs (run_id, agent, created_at, base, continues, agent_version, chart_version, chart_hash, title,
        search, labels, parent, parent_call, fork_of, fork_at, status, progress, updated_at, seq, last_sum, epoch,
        owner, lease_until, wake_at)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
        ${s}.now_ms() + $23::float8, ${s}.now_ms() + $28::float8)
      ON CONFLICT (run_id) DO NOTHING RETURNING run),
    copied AS (
      INSERT INTO ${s}.blobs (run, digest, start, sum, bytes)
      SELECT made.run, b.digest, b.start, b.sum, b.bytes FROM made, ${s}.runs o JOIN ${s}.blobs b ON b.run = o.run
      WHERE o.run_id = $14)
    INSERT INTO ${s}.appends (run, seq, count, chars, position, prior, sum, commit_id, json)
    SELECT run, $19, $19, $24, ${s}.position_of(pg_current_xact_id()), $25, $20, $26, $27 FROM made
    RETURNING run, ${claim === undefined ? notifyWork(s) : 'NULL'} AS told`;
  return [
    text,
    [
      ...Object.values(record),
      escapeOptional(agent.version),
      chart.version,
      escapeText(chart.hash),
      title,
      foldText(title),
      JSON.stringify(labels),
      escapeOptional(parent?.runId),
      escapeOptional(parent?.callId),
      escapeOptional(forkOf?.runId),
      forkOf?.at ?? null,
      status,
      progress === undefined ? null : JSON.stringify(progress),
      events.at(-1)?.at ?? at,
      events.length,
      sumOfEntry(prior, json),
      claim === undefined ? 0 : 1,
      claim === undefined ? null : JSON.stringify(claim.owner),
      claim?.leaseMs ?? null,
      json.length,
      prior,
      commit,
      json,
      wakeInMs ?? null,
    ],
  ];
}

/** The statement that imports a run. It returns a row, or none if the run exists. */
export function insertAdopted(
  s: string,
  { runId, agent, title, labels, parent, status, progress, createdAt, seq, state, ...run }: AdoptedRun,
  wakeInMs: number | undefined,
): Statement {
  const key = escapeText(runId);
  const record = { run_id: key, agent: escapeText(agent), created_at: createdAt, base: seq, continues: null };
  const stateText = JSON.stringify(state);
  const text = `WITH made AS (
      INSERT INTO ${s}.runs (run_id, agent, created_at, base, continues, title, search, labels, parent, parent_call,
        status, progress, updated_at, seq, last_sum, epoch, agent_version, chart_version, chart_hash, wake_at)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $3, $4, $13, 0, $16, $17, $18, ${s}.now_ms() + $19::float8)
      ON CONFLICT (run_id) DO NOTHING RETURNING run)
    INSERT INTO ${s}.snapshots (run, seq, sum, state) SELECT run, $4, $14, $15 FROM made RETURNING run`;
  return [
    text,
    [
      ...Object.values(record),
      title,
      foldText(title),
      JSON.stringify(labels),
      escapeOptional(parent?.runId),
      escapeOptional(parent?.callId),
      status,
      progress === undefined ? null : JSON.stringify(progress),
      sumOfRecord(record),
      sumOfSnapshot(key, seq, stateText),
      stateText,
      escapeOptional(run.agentVersion),
      run.chart?.version ?? null,
      escapeOptional(run.chart?.hash),
      wakeInMs ?? null,
    ],
  ];
}
