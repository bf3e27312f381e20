import { fromStored, type StoredState, toStored } from '../../machines/snapshot.ts';
import { type ChartState, initial, next } from '../../machines/step.ts';
import { EngineError } from '../../protocol/error.ts';
import { JOURNAL_FORMAT, type JournalEntry, type RunStarted } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { given, isJsonObject, type JsonValue } from '../../protocol/json.ts';
import type { RunStatus, Standing, Store } from '../../protocol/store.ts';
import { compareJournal, type WrittenBy } from '../versions/compare-versions.ts';
import { assertReadable } from '../versions/version-mismatch.ts';
import { hashOf } from './digest.ts';
import { damagedJournal, readPage, readPages } from './read-journal.ts';

/** A fold of a journal, and the seq of its last entry. */
export type Fold = { state: ChartState; seq: number };

/** A run as its store has it. */
export type LoadedRun = Fold & {
  /** Of the latest cached fold; 0 without one. */
  snapshotSeq: number;
  /** Only for a run that came from another store: the transcript it continues. */
  inherited?: readonly Item[];
};

/**
 * What is cached of a fold: the format of its journal, and the state. `inherited` is there when the store
 * has not the runs it comes from.
 */
export type RunImage = { format?: number; state: StoredState; inherited?: readonly Item[] };

/** Of images that do not say. */
const FIRST_FORMAT = 1;

/** Throws `chart-mismatch` for a run of another chart or format, `journal-damaged`, `run-unknown`. */
export async function loadRun(store: Store, runId: string): Promise<LoadedRun> {
  const snapshot = await store.loadSnapshot(runId);
  if (snapshot === undefined) return await loadFromStart(store, runId);
  const image = readImage(snapshot.state, runId);
  if (!compareJournal(runId, writerOf(image)).opens) return await loadBehindForeign(store, runId, image);
  const { seq } = snapshot;
  const folded = await foldBehind(store, runId, { state: fromStored(image.state), seq });
  if (folded.seq === seq) await assertReaches(store, runId, seq);
  return { ...folded, snapshotSeq: seq, ...given({ inherited: image.inherited }) };
}

/** A journal that lost what its snapshot has is not gone on with: its next entries would never fit. */
async function assertReaches(store: Store, runId: string, seq: number): Promise<void> {
  const last = (await store.get(runId))?.seq ?? 0;
  if (last < seq) throw damagedJournal(runId, last + 1, `is missing, and its snapshot is of entry ${seq}`);
}

async function loadFromStart(store: Store, runId: string): Promise<LoadedRun> {
  return { ...(await foldBehind(store, runId, null)), snapshotSeq: 0 };
}

/** What another program cached is left aside where the journal is whole, and judged by itself. */
async function loadBehindForeign(store: Store, runId: string, image: RunImage): Promise<LoadedRun> {
  const [first] = await readPage(store, runId, 0, { entries: 1 });
  if (first?.event.type !== 'run.started') assertReadable(runId, writerOf(image));
  return await loadFromStart(store, runId);
}

/** What wrote an image. */
export function writerOf({ format = FIRST_FORMAT, state }: RunImage): WrittenBy {
  return { format, chart: state.chart };
}

/** The state an image holds. Throws `chart-mismatch` for one of another chart or format. */
export function restoreImage(image: RunImage, runId: string): ChartState {
  assertReadable(runId, writerOf(image));
  return fromStored(image.state);
}

/**
 * The state after a run's first entry. A journal of another chart or format is refused with
 * `chart-mismatch`, whose details are a `VersionReport`.
 */
export function beginFold(started: RunStarted): ChartState {
  assertReadable(started.runId, started);
  return initial(started).state;
}

/** With all entries behind a fold, page by page; `null` is the fold of none. */
async function foldBehind(store: Store, runId: string, begun: Fold | null): Promise<Fold> {
  let fold = begun;
  for await (const page of readPages(store, runId, begun?.seq)) {
    for (const entry of page) fold = { state: foldOn(fold, entry, runId), seq: entry.seq };
  }
  if (fold === null) throw noStart(runId);
  return fold;
}

function foldOn(fold: Fold | null, entry: JournalEntry, runId: string): ChartState {
  if (fold !== null) return foldEntry(fold.state, entry, runId);
  if (entry.event.type !== 'run.started') throw noStart(runId);
  return beginFold(entry.event);
}

function noStart(runId: string): EngineError {
  return damagedJournal(runId, 1, 'does not begin with run.started');
}

/** The state after one more entry. An entry the chart does not take was never written by this engine. */
export function foldEntry(state: ChartState, { seq, event }: JournalEntry, runId: string): ChartState {
  switch (event.type) {
    case 'run.claimed':
    case 'tool.late':
    case 'run.noted':
    case 'run.redacted':
      return state;
    case 'run.started':
      throw damagedJournal(runId, seq, 'is a second run.started');
    default: {
      const step = next(state, event);
      if (step.handled) return step.state;
      throw damagedJournal(
        runId,
        seq,
        `(${event.type}) does not fit the state ${JSON.stringify(state.value)}`,
      );
    }
  }
}

/** The image shares its parts with the state, which never changes. */
export function makeImage(state: ChartState, inherited?: readonly Item[]): JsonValue {
  const image = { format: JOURNAL_FORMAT, state: toStored(state) };
  return (inherited === undefined ? image : { ...image, inherited }) as JsonValue;
}

export function readImage(image: JsonValue, runId: string): RunImage {
  if (isRunImage(image)) return image;
  throw new EngineError('journal-damaged', `The snapshot of run ${runId} is damaged.`, { runId });
}

function isRunImage(image: unknown): image is RunImage {
  if (!isJsonObject(image) || !isJsonObject(image.state)) return false;
  const { chart, context, value, status } = image.state;
  return isJsonObject(chart) && isJsonObject(context) && value !== undefined && status !== undefined;
}

/** Nothing is to be done until an input comes; a run that is being cancelled has to be ended yet. */
export function isAtRest(state: ChartState): boolean {
  return state.hasTag('rest') && state.context.cancelling === null;
}

export function hasEnded(state: ChartState): boolean {
  return state.status !== 'active';
}

export function statusOf(state: ChartState): RunStatus {
  if (hasEnded(state)) return state.value as Extract<RunStatus, 'finished' | 'failed' | 'cancelled'>;
  return isAtRest(state) ? 'waiting' : 'running';
}

/**
 * A journal with no more entries than this is folded again as soon as a snapshot of it is read: it has a hash of the
 * state at each rest, and longer ones have snapshots.
 */
export const SHORT_JOURNAL = 64;

/** Where an append that leads to `state`, with entry `seq`, leaves its run. */
export function standingAt(state: ChartState, seq: number): Standing {
  const status = statusOf(state);
  return status === 'running' || seq > SHORT_JOURNAL ? { status } : { status, stateHash: hashState(state) };
}

/** SHA-256 over the canonical JSON of where a run stands, as 64 hex digits. */
export function hashState(state: ChartState): string {
  return hashOf(toStored(state) as JsonValue);
}
