import { type StoredState, toStored } from '../machines/snapshot.ts';
import type { ChartState } from '../machines/step.ts';
import type { JournalEntry, RunEvent } from '../protocol/event.ts';
import { type JsonValue, toJson } from '../protocol/json.ts';
import type { Store } from '../protocol/store.ts';
import { hashOf } from './digest.ts';
import { beginFold, foldEntry } from './load-run.ts';
import { readFromStart } from './read-from-start.ts';

/** What an export says it is; the number changes when its form does. Not frozen before 1.0. */
export const EXPORT_FORMAT = 'agentchart-run/1';

/** A run as a file carries it: its journal, and what tells whether it is still the same. */
export type ExportedRun = {
  run: { runId: string; agent: { name: string; version?: string }; chart: StoredState['chart'] };
  journal: JournalEntry[];
  /** `hashEvent` of each entry, in order. */
  hashes: string[];
  /** `hashState` of the fold of the journal. */
  stateHash: string;
};

/** `chain`: the runs that this one continues, oldest first. */
export type RunExport = { format: typeof EXPORT_FORMAT; chain?: ExportedRun[] } & ExportedRun;

/**
 * A run and those it continues, for `replayExport` in any process. The same run gives the same export.
 * Throws `refused` when one of them was restored from a snapshot, `journal-damaged`, `chart-mismatch`,
 * `run-unknown`.
 */
export async function exportRun(store: Store, runId: string): Promise<RunExport> {
  const records = await store.chain(runId);
  const runs = await Promise.all(records.map(record => exportOne(store, record.runId)));
  const [last] = runs.splice(-1);
  const exported = last ?? (await exportOne(store, runId));
  return { format: EXPORT_FORMAT, ...exported, ...(runs.length === 0 ? {} : { chain: runs }) };
}

async function exportOne(store: Store, runId: string): Promise<ExportedRun> {
  const journal = await readFromStart(store, runId, 'Export');
  const [{ event: started }, ...rest] = journal;
  const state = rest.reduce((before, entry) => foldEntry(before, entry, runId), beginFold(started));
  return {
    run: { runId, agent: started.agent, chart: started.chart },
    journal,
    hashes: journal.map(({ event }) => hashEvent(event)),
    stateHash: hashState(state),
  };
}

/** SHA-256 over the canonical JSON of an event, as 64 hex digits. */
export function hashEvent(event: RunEvent | JsonValue): string {
  return hashOf(toJson(event));
}

/** SHA-256 over the canonical JSON of where a run stands, as 64 hex digits. */
export function hashState(state: ChartState): string {
  return hashOf(toJson(toStored(state)));
}
