import { findCall } from '../../machines/calls.ts';
import type { StoredState } from '../../machines/snapshot.ts';
import type { ChartState } from '../../machines/step.ts';
import type { JournalEntry, QualifiedCall, RunEvent, RunStarted } from '../../protocol/event.ts';
import { type JsonValue, toJson } from '../../protocol/json.ts';
import { countRedactions } from '../../protocol/redaction.ts';
import type { RunRecord, RunStatus, Store } from '../../protocol/store.ts';
import { digestCall, hashOf } from '../journal/digest.ts';
import { beginFold, foldEntry, hashState, statusOf } from '../journal/load-run.ts';
import { damagedJournal, readFromStart, type WholeJournal } from '../journal/read-journal.ts';

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
  /** Of each entry, in order, each over the one before it. */
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

/** What a journal says of its run's status, epoch and times. */
export type Standing = Pick<RunRecord, 'status' | 'epoch' | 'createdAt' | 'updatedAt'>;

/** Of entries that begin with the start of the run, and the fold of them. */
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
 * What a store's record says otherwise than the journal up to its last entry: such as `status is "finished",
 * and by the journal "waiting"`; `null` for nothing. Who holds the lease, and until when, is in no journal.
 */
export function compareRecord(record: RunRecord, started: RunStarted, standing: Standing): string | null {
  const { agent, continues } = started;
  const said = { ...standing, agent: agent.name, continues };
  for (const key of KEYS) {
    if (record[key] !== said[key])
      return `${key} is ${JSON.stringify(record[key])}, and by the journal ${JSON.stringify(said[key])}`;
  }
  return null;
}

const KEYS = ['agent', 'continues', 'status', 'epoch', 'createdAt', 'updatedAt'] as const;

/**
 * What is wrong with the digests of an event, given the state before it: those of calls have to be of the
 * inputs they stand beside, those of a decision of the call's journaled input, and of the edit if it has one.
 * Where an input was redacted its recorded digest stands for it. `null` when nothing is.
 */
export function checkDigests(state: ChartState | null, event: RunEvent): string | null {
  switch (event.type) {
    case 'turn.completed':
    case 'transcript.edited': {
      const changed = event.calls.find(call => !isOfInput(call));
      return changed === undefined
        ? null
        : `has call ${changed.callId} with a digest that is not of its input`;
    }
    case 'approval.decided':
      return checkDecision(state, event);
    default:
      return null;
  }
}

type Decided = Extract<RunEvent, { type: 'approval.decided' }>;

function checkDecision(state: ChartState | null, { callId, digest, decision }: Decided): string | null {
  const call = state === null ? undefined : findCall(state.context, callId);
  if (call === undefined) return null;
  const journaled = isOfInput(call) ? call.digest : digestCall(call.name, call.input);
  if (digest !== journaled)
    return `decides on call ${callId} with digest ${digest}, and its journaled input has ${journaled}`;
  if (decision.type !== 'approve' || decision.input === undefined) return null;
  const edited = digestCall(call.name, decision.input);
  if (decision.editDigest === edited || isRedacted(decision.input)) return null;
  return `edits call ${callId} with digest ${decision.editDigest ?? 'none'}, and the edited input has ${edited}`;
}

function isOfInput({ name, input, digest }: QualifiedCall): boolean {
  return digest === digestCall(name, input) || isRedacted(input);
}

function isRedacted(input: JsonValue): boolean {
  return countRedactions(input) > 0;
}

/**
 * The chain of an export: the hash of each entry covers the hash before it, so that no entry can be changed,
 * left out, moved or brought from another run without every later hash being made anew. It has no key: it
 * finds accidents and partial edits, not the work of somebody who makes all hashes anew.
 */

/** What the first entry is bound to: which run it is, and the seal of the run it continues, if that is exported too. */
export function hashHead(run: object, continued: string | undefined): string {
  return hashOf({ run: toJson(run), continued: continued ?? null });
}

/** Of an entry, given the hash before it. */
export function hashNext(before: string, seq: number, event: object | JsonValue): string {
  return hashOf({ before, seq, event: toJson(event) });
}

/** Of what an export says of the end of its journal, given the hash of the last entry. */
export function hashSeal(before: string, end: object): string {
  return hashOf({ before, end: toJson(end) });
}
