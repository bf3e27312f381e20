import type { RunStarted } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { AdoptedRun, JournalRest, RunRecord } from '../../protocol/store.ts';
import { foldText } from '../list-query.ts';
import { describeStart } from '../run-record.ts';
import { escapeOptional, escapeText } from './rows.ts';

/** A run to insert. Its journal begins after the entry `base`. */
export type NewRun = Omit<AdoptedRun, 'seq' | 'state'> &
  Pick<RunRecord, 'forkOf' | 'continues'> & { base: number };

/** Returns the run that an event begins. */
export function newRunOf(
  event: RunStarted,
  { status, progress, wakeAt }: Pick<JournalRest, 'status' | 'progress' | 'wakeAt'>,
): NewRun {
  return { ...describeStart(event), status, base: 0, ...omitUndefined({ progress, wakeAt }) };
}

/** Returns the columns of a new run that the tables of all databases have. */
export function columnsOf({ chart, parent, forkOf, progress, ...run }: NewRun) {
  return {
    run_id: escapeText(run.runId),
    agent: escapeText(run.agent),
    agent_version: escapeOptional(run.agentVersion),
    chart_version: chart?.version ?? null,
    chart_hash: escapeOptional(chart?.hash),
    title: run.title,
    search: foldText(run.title),
    parent: escapeOptional(parent?.runId),
    parent_call: escapeOptional(parent?.callId),
    fork_of: escapeOptional(forkOf?.runId),
    fork_at: forkOf?.at ?? null,
    continues: escapeOptional(run.continues),
    status: run.status,
    progress: progress === undefined ? null : JSON.stringify(progress),
    created_at: run.createdAt,
    base: run.base,
  };
}
