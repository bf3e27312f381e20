import type { StoredState } from '../machines/snapshot.ts';
import type { ChartState } from '../machines/step.ts';
import type { JournalEntry, RunEvent } from '../protocol/event.ts';
import { type JsonValue, toJson } from '../protocol/json.ts';
import type { RunRecord, RunStatus, Store } from '../protocol/store.ts';
import { checkDigests } from './check-digests.ts';
import { compareRecord, standingOf } from './check-record.ts';
import { hashOf } from './digest.ts';
import { hashHead, hashNext, hashSeal } from './hash-chain.ts';
import { beginFold, damagedJournal, foldEntry, hashState } from './load-run.ts';
import { readFromStart, type WholeJournal } from './read-from-start.ts';

/** What an export says it is; the number changes when its form does. Not frozen before 1.0. */
export const EXPORT_FORMAT = 'agentchart-run/2';

/** Exports of it have hashes without a chain, and no `end`; they are still replayed. */
export const UNCHAINED_FORMAT = 'agentchart-run/1';

/** Where a run stands behind its journal. */
export type ExportedEnd = {
  status: RunStatus;
  /** Of the last claim in the journal; 0 without one. */
  epoch: number;
  /** Of the last entry, ms since the epoch. */
  at: number;
  /** `hashState` of the fold of the journal. */
  stateHash: string;
};

/** A run as a file carries it: its journal, and what tells whether it is still the same. */
export type ExportedRun = {
  run: { runId: string; agent: { name: string; version?: string }; chart: StoredState['chart'] };
  journal: JournalEntry[];
  /** Of each entry, in order, each over the one before it (`hash-chain.ts`). */
  hashes: string[];
  end: ExportedEnd;
  /** `hashSeal` of `end`. */
  seal: string;
};

/** `chain`: the runs that this one continues, oldest first. */
export type RunExport = { format: typeof EXPORT_FORMAT; chain?: ExportedRun[] } & ExportedRun;

/**
 * A run and those it continues, for `replayExport` in any process. The same run gives the same export.
 * Throws `refused` when one of them was restored from a snapshot, `journal-damaged` (also for a decision whose
 * digest is not of its call's input, and for a record that says otherwise than the journal), `chart-mismatch`,
 * `run-unknown`.
 */
export async function exportRun(store: Store, runId: string): Promise<RunExport> {
  const chain: ExportedRun[] = [];
  for (const record of await store.chain(runId)) {
    chain.push(await exportOne(store, record, chain.at(-1)?.seal));
  }
  const exported = chain.pop();
  if (exported === undefined) throw damagedJournal(runId, 1, 'is missing');
  return { format: EXPORT_FORMAT, ...exported, ...(chain.length === 0 ? {} : { chain }) };
}

async function exportOne(
  store: Store,
  record: RunRecord,
  continued: string | undefined,
): Promise<ExportedRun> {
  const { runId } = record;
  const journal = await readFromStart(store, runId, 'Export');
  const { event: started } = journal[0];
  const run = { runId, agent: started.agent, chart: started.chart };
  const state = foldChecked(journal, record);
  const hashes: string[] = [];
  for (const { seq, event } of journal) {
    hashes.push(hashNext(hashes.at(-1) ?? hashHead(run, continued), seq, event));
  }
  const end = describeEnd(journal, state);
  return {
    run,
    journal: journal.map(({ seq, event }) => ({ seq, event })),
    hashes,
    end,
    seal: hashSeal(hashes.at(-1) ?? '', end),
  };
}

/** The fold of a journal that is what it says it is. */
function foldChecked(journal: WholeJournal, record: RunRecord): ChartState {
  const [{ event: started }] = journal;
  const { runId } = record;
  let state = beginFold(started);
  for (const [index, entry] of journal.entries()) {
    const fault = checkDigests(state, entry.event);
    if (fault !== null) throw damagedJournal(runId, entry.seq, fault);
    if (index > 0) state = foldEntry(state, entry, runId);
    if (entry.seq !== record.seq) continue;
    const difference = compareRecord(record, started, standingOf(journal.slice(0, record.seq), state));
    if (difference !== null)
      throw damagedJournal(runId, entry.seq, `leads elsewhere than the run's record says: ${difference}`);
  }
  return state;
}

/** What an export says of the end of a journal. */
export function describeEnd(journal: readonly JournalEntry[], state: ChartState): ExportedEnd {
  const { status, epoch, updatedAt: at } = standingOf(journal, state);
  return { status, epoch, at, stateHash: hashState(state) };
}

/** SHA-256 over the canonical JSON of an event, as 64 hex digits: what an export without a chain has of each. */
export function hashEvent(event: RunEvent | JsonValue): string {
  return hashOf(toJson(event));
}
