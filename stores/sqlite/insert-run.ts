import type { RunStatus } from '../../protocol/store.ts';
import { existingRun } from '../run-record.ts';
import { sumOfRecord } from './checksum.ts';
import { describeRun, type Position } from './locate-run.ts';
import { escapeOptional, escapeText } from './rows.ts';
import type { Statements } from './statements.ts';

/** The initial record of a run. Its journal begins after the entry `base`. */
type NewRun = {
  agent: string;
  agentVersion?: string | undefined;
  chart?: { version: number; hash: string };
  parent?: string | undefined;
  continues?: string | undefined;
  status: RunStatus;
  createdAt: number;
  base: number;
};

/**
 * Inserts a run without entries and returns its position. Throws `run-exists`, and `store-damaged` like `describeRun`.
 */
export function insertRun(sql: Statements, runId: string, created: NewRun): Position {
  if (describeRun(sql, runId) !== undefined) throw existingRun(runId);
  const { chart, status, createdAt, base } = created;
  const row = {
    run_id: escapeText(runId),
    agent: escapeText(created.agent),
    agent_version: escapeOptional(created.agentVersion),
    chart_version: chart?.version ?? null,
    chart_hash: escapeOptional(chart?.hash),
    parent: escapeOptional(created.parent),
    continues: escapeOptional(created.continues),
    status,
    created_at: createdAt,
    base,
  };
  const sum = sumOfRecord(row);
  const run = Number(sql.insertRun.run({ ...row, sum }).lastInsertRowid);
  sql.nameJournal.run(row.run_id, run);
  return { run, base, seq: base, sum, epoch: 0, status };
}
