import type { Labels } from '../../protocol/listing/label.ts';
import type { Progress, RunRecord, RunStatus } from '../../protocol/store.ts';
import { sumOfRecord } from '../checksum.ts';
import { foldText } from '../list-query.ts';
import { escapeOptional, escapeText } from '../rows.ts';
import { existingRun } from '../run-record.ts';
import { describeRun, type Position } from './locate-run.ts';
import type { Statements } from './statements.ts';

/** The initial record of a run. Its journal begins after the entry `base`. */
type NewRun = {
  agent: string;
  title: string;
  labels: Labels;
  agentVersion?: string | undefined;
  chart?: { version: number; hash: string } | undefined;
  parent?: RunRecord['parent'] | undefined;
  forkOf?: RunRecord['forkOf'] | undefined;
  continues?: string | undefined;
  status: RunStatus;
  progress?: Progress | undefined;
  wakeAt?: number | undefined;
  createdAt: number;
  base: number;
};

/**
 * Inserts a run without entries and returns its position. Throws `run-exists`, and `store-damaged` like `describeRun`.
 */
export function insertRun(sql: Statements, runId: string, created: NewRun): Position {
  if (describeRun(sql, runId) !== undefined) throw existingRun(runId);
  const { chart, parent, forkOf, title, labels, progress, status, createdAt, base } = created;
  const row = {
    run_id: escapeText(runId),
    agent: escapeText(created.agent),
    agent_version: escapeOptional(created.agentVersion),
    chart_version: chart?.version ?? null,
    chart_hash: escapeOptional(chart?.hash),
    title,
    search: foldText(title),
    parent: escapeOptional(parent?.runId),
    parent_call: escapeOptional(parent?.callId),
    fork_of: escapeOptional(forkOf?.runId),
    fork_at: forkOf?.at ?? null,
    continues: escapeOptional(created.continues),
    status,
    progress: progress === undefined ? null : JSON.stringify(progress),
    wake_at: created.wakeAt ?? null,
    created_at: createdAt,
    base,
  };
  const sum = sumOfRecord(row);
  const run = Number(sql.insertRun.run({ ...row, sum }).lastInsertRowid);
  sql.nameJournal.run(row.run_id, run);
  for (const [name, value] of Object.entries(labels))
    sql.insertLabel.run(run, name, value, createdAt, row.run_id);
  return { run, base, seq: base, sum, epoch: 0, status, wakeAt: created.wakeAt, hasRowsPastEnd: false };
}

/** Replaces the title of a run. */
export function writeTitle(sql: Statements, run: number, title: string): void {
  sql.setTitle.run(title, foldText(title), run);
}
