import type { StoredState } from '../../machines/snapshot.ts';
import { statusOf } from '../../machines/status.ts';
import type { ChartState } from '../../machines/step.ts';
import { hashOf } from '../../protocol/content/digest.ts';
import type { JournalEntry, RunStarted } from '../../protocol/event.ts';
import { canonicalJson, type JsonValue, toJson } from '../../protocol/json.ts';
import type { RunRecord, RunStatus, Store } from '../../protocol/store.ts';
import { checkDigests } from '../journal/check-digests.ts';
import { beginFold, foldEntry, hashState } from '../journal/load-run.ts';
import { damagedJournal, readFromStart, type WholeJournal } from '../journal/read-journal.ts';

/** The format of an export; the number changes with the format. Not frozen before 1.0. */
export const EXPORT_FORMAT = 'agentchart-run/1';

/** The run after the last entry of its journal. */
type ExportedEnd = {
  status: RunStatus;
  /** The epoch of the last claim in the journal; 0 without a claim. */
  epoch: number;
  /** The time of the last entry, in ms since the epoch. */
  at: number;
  /** The hash of the state after the last entry. */
  stateHash: string;
};

/** An exported run: its journal, and hashes that detect changes. */
type ExportedRun = {
  run: { runId: string; agent: { name: string; version?: string }; chart: StoredState['chart'] };
  journal: JournalEntry[];
  /** The hash of each entry; each hash covers the previous one. */
  hashes: string[];
  end: ExportedEnd;
  /** `hashSeal` of `end`. */
  seal: string;
};

/** `chain`: the runs that this one continues, oldest first. */
export type RunExport = { format: typeof EXPORT_FORMAT; chain?: ExportedRun[] } & ExportedRun;

/**
 * Exports a run and the runs that it continues, for `replayExport`. The same run always gives the same export. Throws
 * `refused` if one of the runs was restored from a snapshot, `journal-damaged` (also for a wrong digest or a record
 * that contradicts the journal), `chart-mismatch`, and `run-unknown`.
 */
export async function exportRun(store: Store, runId: string): Promise<RunExport> {
  const chain: ExportedRun[] = [];
  for (const record of await store.chain(runId)) {
    chain.push(await exportOne(store, record, chain.at(-1)?.seal));
  }
  const exported = chain.pop();
  if (exported === undefined) throw damagedJournal(runId, 1, 'is missing');
  return { format: EXPORT_FORMAT, ...exported, ...(chain.length > 0 && { chain }) };
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

/** Folds a journal, and checks its digests and the run's record. */
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
      throw damagedJournal(runId, entry.seq, `contradicts the run's record: ${difference}`);
  }
  return state;
}

/** Describes the end of a journal for an export. */
export function describeEnd(journal: readonly JournalEntry[], state: ChartState): ExportedEnd {
  const { status, epoch, updatedAt: at } = standingOf(journal, state);
  return { status, epoch, at, stateHash: hashState(state) };
}

type Standing = Pick<RunRecord, 'status' | 'epoch' | 'createdAt' | 'updatedAt'>;

/** Returns status, epoch and times of a run, from its entries (beginning with the first) and the state after them. */
export function standingOf(entries: readonly JournalEntry[], state: ChartState): Standing {
  const claim = entries.findLast(({ event }) => event.type === 'run.claimed')?.event;
  return {
    status: statusOf(state),
    epoch: claim?.type === 'run.claimed' ? claim.epoch : 0,
    createdAt: entries[0]?.event.at ?? 0,
    updatedAt: entries.at(-1)?.event.at ?? 0,
  };
}

/**
 * Compares a store's record with the journal up to the record's last entry. Returns the first difference, such as
 * `status is "finished", but "waiting" according to the journal`, or `null`. Leases are not journaled and not compared.
 */
export function compareRecord(record: RunRecord, started: RunStarted, standing: Standing): string | null {
  const { agent, continues } = started;
  const journaled = { ...standing, agent: agent.name, continues };
  const { labels } = record;
  const isLabelled = canonicalJson(labels) === canonicalJson(started.labels ?? {});
  if (!isLabelled) return describe('labels', labels, started.labels ?? {});
  for (const key of KEYS) {
    if (record[key] !== journaled[key]) return describe(key, record[key], journaled[key]);
  }
  return null;
}

function describe(key: string, recorded: unknown, journaled: unknown): string {
  return `${key} is ${JSON.stringify(recorded)}, but ${JSON.stringify(journaled)} according to the journal`;
}

const KEYS = ['agent', 'continues', 'status', 'epoch', 'createdAt', 'updatedAt'] as const;

/*
 * The hash chain of an export: the hash of each entry covers the previous hash, so an entry that was changed, removed,
 * moved or copied from another run makes every later hash wrong. The chain has no key: it detects accidents and partial
 * edits, but not an attacker who recomputes all hashes.
 */

/** Returns the head of the chain: the hash of the run's identity and the seal of the run it continues, if exported. */
export function hashHead(run: object, continued: string | undefined): string {
  return hashOf({ run: toJson(run), continued: continued ?? null });
}

/** Returns the hash of an entry, given the previous hash. */
export function hashNext(before: string, seq: number, event: object | JsonValue): string {
  return hashOf({ before, seq, event: toJson(event) });
}

/** Returns the hash of an export's `end`, given the hash of the last entry. */
export function hashSeal(before: string, end: object): string {
  return hashOf({ before, end: toJson(end) });
}
