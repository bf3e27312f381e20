import { statusOf } from '../../machines/status.ts';
import type { ChartState } from '../../machines/step.ts';
import { hashOf } from '../../protocol/content/digest.ts';
import { EngineError } from '../../protocol/error.ts';
import { blobsOf, type JournalEntry, type RunStarted } from '../../protocol/event.ts';
import { canonicalJson, type JsonValue, toJson } from '../../protocol/json.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';
import { checkDigests } from '../journal/check-digests.ts';
import { beginFold, foldEntry, hashState } from '../journal/load-run.ts';
import { damagedJournal, readFromStart, type WholeJournal } from '../journal/read-journal.ts';
import { RunBlobs } from '../journal/run-blobs.ts';
import { EXPORT_FORMAT, type ExportedPart, type UncheckedRun } from './read-export.ts';

/** An exported run: its journal, and hashes that detect changes. Those of entries and the seal form a chain. */
type ExportedRun = Omit<UncheckedRun, 'journal'> & { journal: JournalEntry[] };

/** `chain`: the runs that this one continues, oldest first. */
export type RunExport = { format: typeof EXPORT_FORMAT; chain?: ExportedRun[] } & ExportedRun;

/** A run with those it continues, always alike. Throws `refused` (restored), `journal-damaged`, `chart-mismatch`, `run-unknown`. */
export async function exportRun(store: Store, runId: string): Promise<RunExport> {
  const chain: ExportedRun[] = [];
  for (const link of await store.chain(runId)) {
    const record = await store.get(link.runId);
    if (record === undefined)
      throw new EngineError('run-unknown', `Run ${link.runId} was deleted while it was exported.`);
    chain.push(await exportOne(store, record, chain.at(-1)?.seal));
  }
  const exported = chain.pop();
  if (exported === undefined) throw damagedJournal(runId, 1, 'is missing');
  return { format: EXPORT_FORMAT, ...exported, ...(chain.length > 0 && { chain }) };
}

/** The large results of exported runs, each once and in parts, which fit in memory. Throws `result-missing`. */
export async function* exportBlobs(
  store: Store,
  { chain = [], ...last }: RunExport,
): AsyncGenerator<ExportedPart> {
  const written = new Set<string>();
  for (const { run, journal } of [...chain, last]) {
    const blobs = new RunBlobs({ store, host: {}, runId: run.runId });
    for (const blob of journal.flatMap(({ event }) => blobsOf(event))) {
      if (written.has(blob.digest)) continue;
      written.add(blob.digest);
      const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
      for await (const page of blobs.pages(blob))
        yield { blob: blob.digest, text: decoder.decode(page, { stream: true }) };
    }
  }
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
  for (const { seq, event } of journal)
    hashes.push(hashNext(hashes.at(-1) ?? hashHead(run, continued), seq, event));
  const end = describeEnd(journal, state);
  const entries = journal.map(({ seq, event }) => ({ seq, event }));
  return { run, journal: entries, hashes, end, seal: hashSeal(hashes.at(-1) ?? '', end) };
}

function foldChecked(journal: WholeJournal, record: RunRecord): ChartState {
  const [{ event: started }] = journal;
  const { runId } = record;
  let state = beginFold(started);
  for (const [index, entry] of journal.entries()) {
    const fault = checkDigests(state, entry.event);
    if (fault !== null) throw damagedJournal(runId, entry.seq, fault);
    if (index > 0) state = foldEntry(state, entry, runId);
    if (entry.seq !== record.seq) continue;
    const difference = compareRecord(record, started, exportedStanding(journal.slice(0, record.seq), state));
    if (difference !== null)
      throw damagedJournal(runId, entry.seq, `contradicts the run's record: ${difference}`);
  }
  return state;
}

export function describeEnd(journal: readonly JournalEntry[], state: ChartState): UncheckedRun['end'] {
  const { status, epoch, updatedAt: at } = exportedStanding(journal, state);
  return { status, epoch, at, stateHash: hashState(state) };
}

type Standing = Pick<RunRecord, 'status' | 'epoch' | 'createdAt' | 'updatedAt'>;

/** Returns status, epoch and times of a run, from its entries (beginning with the first) and the state after them. */
export function exportedStanding(entries: readonly JournalEntry[], state: ChartState): Standing {
  const claim = entries.findLast(({ event }) => event.type === 'run.claimed')?.event;
  return {
    status: statusOf(state),
    epoch: claim?.type === 'run.claimed' ? claim.epoch : 0,
    createdAt: entries[0]?.event.at ?? 0,
    updatedAt: entries.at(-1)?.event.at ?? 0,
  };
}

/** The first difference of a store's record from its journal, in words, or `null`. Leases are not journaled. */
export function compareRecord(record: RunRecord, started: RunStarted, standing: Standing): string | null {
  const { agent, continues, labels = {}, thread } = started;
  const journaled = { ...standing, agent: agent.name, continues, labels, thread };
  const isEqual = (key: keyof typeof journaled) =>
    key === 'labels'
      ? canonicalJson(record.labels) === canonicalJson(labels)
      : record[key] === journaled[key];
  const key = KEYS.find(name => !isEqual(name));
  if (key === undefined) return null;
  const [was, is] = [record[key], journaled[key]].map(value => JSON.stringify(value));
  return `${key} is ${was}, but ${is} according to the journal`;
}

const KEYS = ['labels', 'thread', 'agent', 'continues', 'status', 'epoch', 'createdAt', 'updatedAt'] as const;

/*
 * The hash chain of an export: the hash of each entry covers the previous hash, so an entry that was changed, removed,
 * moved or copied from another run makes every later hash wrong. The chain has no key: it detects accidents and partial
 * edits, but not an attacker who recomputes all hashes.
 */

/** Returns the head of the chain: the hash of the run's identity and the seal of the run it continues, if exported. */
export function hashHead(run: object, continued: string | undefined): string {
  return hashOf({ run: toJson(run), continued: continued ?? null });
}

export function hashNext(before: string, seq: number, event: object | JsonValue): string {
  return hashOf({ before, seq, event: toJson(event) });
}

export function hashSeal(before: string, end: object): string {
  return hashOf({ before, end: toJson(end) });
}
