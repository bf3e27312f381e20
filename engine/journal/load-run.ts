import type { Context } from '../../machines/context.ts';
import { isOfChart } from '../../machines/fold.ts';
import { OPEN_KINDS } from '../../machines/settled.ts';
import { fromStored, type StoredState, toStored } from '../../machines/snapshot.ts';
import { hasEnded, isAtRest, statusOf } from '../../machines/status.ts';
import { type ChartState, initial, next, statePath } from '../../machines/step.ts';
import { hashOf } from '../../protocol/content/digest.ts';
import { EngineError } from '../../protocol/error.ts';
import { JOURNAL_FORMAT, type JournalEntry, type RunEvent, type RunStarted } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { isJsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { foldWords, wordsOf } from '../../protocol/listing/words.ts';
import type { Progress, Standing, Store, StoredSnapshot } from '../../protocol/store.ts';
import { compareJournal, type WrittenBy } from '../versions/compare-versions.ts';
import { assertReadable } from '../versions/version-mismatch.ts';
import { charsOf, FoldCache } from './fold-cache.ts';
import {
  damagedJournal,
  describeRestored,
  type EntrySpan,
  readPage,
  readPages,
  readUnredacted,
} from './read-journal.ts';

/** A fold of a journal, and the seq of its last entry. */
export type Fold = { state: ChartState; seq: number };

/** A fold of what a store has. `redactions`: how often the run had been redacted before, as in `RunRecord`. */
export type StoredFold = Fold & { redactions: number };

export type LoadedRun = StoredFold & {
  snapshotSeq: number;
  /** Only for a run that came from another store: the transcript of the runs that it continues. */
  inherited?: readonly Item[];
};

/** The content of a snapshot. `inherited`: the transcript of the runs that this one continues, if the store lacks them. */
type RunImage = { format: number; state: StoredState; inherited?: readonly Item[] };

type KnownRun = Omit<LoadedRun, 'seq' | 'redactions'>;

const knownRuns = new WeakMap<Store, FoldCache<KnownRun>>();

function knownRunsIn(store: Store): FoldCache<KnownRun> {
  const known = knownRuns.get(store) ?? new FoldCache();
  knownRuns.set(store, known);
  return known;
}

/**
 * Folds a run from its latest snapshot on, or from where this process has folded it before. Throws `run-unknown`,
 * `journal-damaged` and `chart-mismatch`.
 */
export async function loadRun(store: Store, runId: string): Promise<LoadedRun> {
  const runs = knownRunsIn(store);
  return await readUnredacted(
    store,
    runId,
    async (span, record) => {
      const known = record && runs.find(record);
      const base = known ? { ...known.fold, seq: known.seq } : await readStored(store, runId);
      const { fold, chars } = await foldAfter(store, runId, base, span);
      if (base !== null && (span.last ?? 0) < base.seq) await assertNotTruncated(store, runId, base.seq);
      const { redactions = 0 } = span;
      const loaded = {
        ...fold,
        snapshotSeq: base?.snapshotSeq ?? 0,
        ...omitUndefined({ inherited: base?.inherited }),
      };
      const { seq, ...kept } = loaded;
      const size = (known?.chars ?? charsOf(base?.state.context.transcript)) + chars;
      if (record !== undefined) runs.keep(record, { seq, fold: kept, chars: size });
      return { ...loaded, redactions };
    },
    runs.knowsMore,
  );
}

/** Notes the fold of what this process has appended to the store, so that it is not read from there. */
export function noteFold(store: Store, runId: string, { seq, redactions, ...fold }: LoadedRun): void {
  const runs = knownRunsIn(store);
  const { startedAt: createdAt, transcript } = fold.state.context;
  const known = runs.find({ runId, createdAt, redactions, seq: Number.POSITIVE_INFINITY });
  if (known === undefined || known.seq < seq)
    runs.keep({ runId, createdAt, redactions }, { seq, fold, chars: charsOf(transcript) });
}

/** Notes that the store has a snapshot of the run, so that none is saved again. */
export function noteSnapshot(
  store: Store,
  runId: string,
  { seq, redactions }: Omit<StoredFold, 'state'>,
): void {
  knownRunsIn(store).change(runId, redactions, fold => ({
    ...fold,
    snapshotSeq: Math.max(seq, fold.snapshotSeq),
  }));
}

async function readStored(store: Store, runId: string) {
  const { base, image } = readBase(await store.loadSnapshot(runId), runId);
  if (image !== undefined && base === null && !(await hasStart(store, runId)))
    assertReadable(runId, writerOf(image));
  return base && { ...base, snapshotSeq: base.seq };
}

/** The fold of a run's entries up to `at`. Throws like `loadRun`, and `refused` where the store has only later entries. */
export async function loadRunAt(
  store: Store,
  runId: string,
  at: number,
): Promise<Fold & Pick<LoadedRun, 'inherited'>> {
  return await readUnredacted(store, runId, async ({ redactions }) => {
    const { base } = readBase(await store.loadSnapshot(runId), runId);
    const isBefore = base !== null && base.seq <= at;
    if (!isBefore) {
      const [first] = await readPage(store, runId, 0, { entries: 1 });
      if (first?.seq !== 1) throw describeRestored(runId, 'Read', first?.seq);
    }
    const from = isBefore ? base : null;
    const { fold } = await foldAfter(store, runId, from, { last: at, redactions }, at);
    return { ...fold, ...omitUndefined({ inherited: from?.inherited }) };
  });
}

/** `base` is `null` if another version wrote the snapshot: the full journal may still be compatible. */
function readBase(snapshot: StoredSnapshot | undefined, runId: string) {
  if (snapshot === undefined) return { base: null };
  const image = readImage(snapshot.state, runId);
  const { inherited, state } = image;
  if (!compareJournal(runId, writerOf(image)).opens) return { base: null, image };
  return { image, base: { state: fromStored(state), seq: snapshot.seq, inherited } };
}

async function hasStart(store: Store, runId: string): Promise<boolean> {
  const [first] = await readPage(store, runId, 0, { entries: 1 });
  return first?.event.type === 'run.started';
}

/** Throws `journal-damaged` for a journal shorter than its snapshot: further entries would never fit. */
async function assertNotTruncated(store: Store, runId: string, seq: number): Promise<void> {
  const last = (await store.get(runId))?.seq ?? 0;
  if (last < seq) throw damagedJournal(runId, last + 1, `is missing, but the snapshot is of entry ${seq}`);
}

export function writerOf({ format, state }: RunImage): WrittenBy {
  return { format, chart: state.chart };
}

/** The state in an image. Throws `chart-mismatch` for an image of another chart or format. */
export function restoreImage(image: RunImage, runId: string): ChartState {
  assertReadable(runId, writerOf(image));
  return fromStored(image.state);
}

/** The state after a run's first entry. Throws `chart-mismatch`, with a `VersionReport` in its details. */
export function beginFold(started: RunStarted): ChartState {
  assertReadable(started.runId, started);
  return initial(started).state;
}

async function foldAfter(
  store: Store,
  runId: string,
  base: Fold | null,
  span: EntrySpan,
  at = Number.POSITIVE_INFINITY,
): Promise<{ fold: Fold; chars: number }> {
  let chars = 0;
  let fold = base && { state: base.state, seq: base.seq };
  const missingStart = () => damagedJournal(runId, 1, 'does not begin with run.started');
  for await (const page of readPages(store, runId, base?.seq, span)) {
    for (const entry of page) {
      const { seq, event } = entry;
      if (seq > at) break;
      chars += charsOf(event);
      if (fold !== null) fold = { state: foldEntry(fold.state, entry, runId), seq };
      else if (event.type === 'run.started') fold = { state: beginFold(event), seq };
      else throw missingStart();
    }
  }
  if (fold === null) throw missingStart();
  return { fold, chars };
}

/** The state after one more entry. Throws `journal-damaged` for an entry that the chart does not accept. */
export function foldEntry(state: ChartState, { seq, event }: JournalEntry, runId: string): ChartState {
  if (event.type === 'run.started') throw damagedJournal(runId, seq, 'is a second run.started');
  if (!isOfChart(event)) return state;
  const step = next(state, event);
  if (step.handled) return step.state;
  throw damagedJournal(runId, seq, `(${event.type}) does not fit the state ${JSON.stringify(state.value)}`);
}

/** The content of a snapshot, as JSON. It shares its parts with the state, which is immutable. */
export function makeImage(state: ChartState, inherited?: readonly Item[]): JsonValue {
  const image = { format: JOURNAL_FORMAT, state: toStored(state) };
  return (inherited === undefined ? image : { ...image, inherited }) as JsonValue;
}

/** Checks the content of a snapshot. Throws `journal-damaged` if it is not a `RunImage`. */
export function readImage(image: JsonValue, runId: string): RunImage {
  if (isRunImage(image)) return image;
  throw new EngineError('journal-damaged', `The snapshot of run ${runId} is damaged.`, { runId });
}

function isRunImage(image: unknown): image is RunImage {
  if (!isJsonObject(image) || typeof image.format !== 'number' || !isJsonObject(image.state)) return false;
  const { chart, context, value, status } = image.state;
  return isJsonObject(chart) && isJsonObject(context) && value !== undefined && status !== undefined;
}

/** How long a journal gets, in entries, before it has snapshots. Until then each rest records a hash of the state. */
export const SHORT_JOURNAL = 64;

/** What the store records with an append that leads to `state` and whose last entry is `seq`. */
export function standingAt(
  state: ChartState,
  seq: number,
  { hashes = true }: Pick<Store, 'hashes'> = {},
): Standing {
  const standing = { ...standingOf(state), ...omitUndefined({ wakes: wokenBy(state) }) };
  if (!hashes || standing.status === 'running' || seq > SHORT_JOURNAL) return standing;
  return { ...standing, stateHash: hashState(state) };
}

/** What a store records of a run in this state, whatever led to it. */
export function standingOf(state: ChartState): Pick<Standing, 'status' | 'wakeAt'> & { progress: Progress } {
  const wakeAt = isAtRest(state) && !hasEnded(state) ? state.context.timer : null;
  return {
    status: statusOf(state),
    progress: progressOf(state),
    ...(wakeAt !== null && { wakeAt }),
  };
}

function wokenBy(state: ChartState): string | undefined {
  return hasEnded(state) ? state.context.parent?.runId : undefined;
}

/** SHA-256 over the canonical JSON of the state, as 64 hex digits. */
export function hashState(state: ChartState): string {
  return hashOf(toStored(state) as JsonValue);
}

/** The words of events and of the error of a run that has failed, if there are any. */
export function wordsFor(events: readonly RunEvent[], progress?: Progress): Pick<Standing, 'words'> {
  const { errorCode, why = '' } = progress ?? {};
  const error = errorCode === undefined ? '' : foldWords(`${errorCode} ${why}`);
  const words = `${wordsOf(events)} ${error}`.trim();
  return words === '' ? {} : { words };
}

const LONGEST_WHY = 300;
const MOST_AWAITED = 20;

/** Returns what lists show of a run in this state. Computed with every append, so it does little. */
export function progressOf(state: ChartState): Progress {
  const { context } = state;
  const { next, usage, turns, cost, activeMs } = context;
  const tokens = usage === null ? 0 : usage.inputTokens + usage.outputTokens;
  const progress: Progress = { state: statePath(state), turns, tokens, cost, activeMs };
  const model = modelOf(context);
  if (model !== undefined) progress.model = model;
  if (usage !== null && usage.cachedInputTokens !== null)
    progress.cached = { tokens: usage.cachedInputTokens, of: usage.inputTokens };
  if (next !== null) progress.why = next.why.slice(0, LONGEST_WHY);
  const { signIns, review, open } = context;
  const waits = open > 0 || review !== null || signIns.length > 0 || next?.type === 'awaitResults';
  if (state.hasTag('rest') && waits) progress.waitsFor = listAwaited(context);
  if (state.status === 'active') return progress;
  progress.endedAt = context.now;
  if (next?.type === 'fail') progress.errorCode = next.code;
  if (next?.type === 'finish' && next.reason !== undefined) progress.incomplete = { reason: next.reason };
  return progress;
}

/** `undefined` before a turn was completed or failed. */
function modelOf({ config, turn, turns, failure }: Context): string | undefined {
  const model = turns === 0 && failure === null ? undefined : config.models[turn.model];
  return model && `${model.provider}:${model.model}`;
}

function listAwaited(context: Context): NonNullable<Progress['waitsFor']> {
  const { calls, review, background, open, signIns } = context;
  if (signIns.length > 0)
    return signIns.map(({ server }) => ({ type: 'sign-in', callId: server, name: server }));
  if (open === 0 && review === null)
    return background
      .map(({ callId, name, childRunId: runId }) => ({ type: 'result' as const, callId, name, runId }))
      .slice(0, MOST_AWAITED);
  if (review !== null) return [{ type: 'review', callId: review.id, name: 'answer' }];
  const awaited = calls.flatMap(({ callId, name, childRunId, status }) => {
    const type = status === 'asking' ? ('question' as const) : OPEN_KINDS[status];
    if (type === undefined) return [];
    return { type, callId, name, ...(type === 'result' && omitUndefined({ runId: childRunId })) };
  });
  return awaited.slice(0, MOST_AWAITED);
}
