import { assertChart, fromStored, type StoredState, toStored } from '../machines/snapshot.ts';
import { type ChartState, initial, next } from '../machines/step.ts';
import { EngineError } from '../protocol/error.ts';
import { JOURNAL_FORMAT, type JournalEntry, type RunStarted } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import { isJsonObject, type JsonValue } from '../protocol/json.ts';
import type { RunStatus, Store } from '../protocol/store.ts';

/** A run as its store has it: the fold of its journal. */
export type LoadedRun = {
  state: ChartState;
  seq: number;
  /** Of the latest cached fold; 0 without one. */
  snapshotSeq: number;
  /** Only for a run that came from another store: the transcript it continues. */
  inherited?: readonly Item[];
};

/** What is cached of a fold. `inherited` is there when the store has not the runs it comes from. */
export type RunImage = { state: StoredState; inherited?: readonly Item[] };

export async function loadRun(store: Store, runId: string): Promise<LoadedRun> {
  const snapshot = await store.loadSnapshot(runId);
  const image = snapshot === undefined ? undefined : readImage(snapshot.state, runId);
  const snapshotSeq = snapshot?.seq ?? 0;
  const entries = await store.read(runId, snapshotSeq);
  const inherited = image?.inherited === undefined ? {} : { inherited: image.inherited };
  if (image !== undefined) {
    return {
      ...foldEntries(fromStored(image.state), snapshotSeq, entries, runId),
      snapshotSeq,
      ...inherited,
    };
  }
  const [first, ...rest] = entries;
  if (first?.event.type !== 'run.started') throw damaged(runId, 1, 'does not begin with run.started');
  return { ...foldEntries(beginFold(first.event), 1, rest, runId), snapshotSeq };
}

/** The state after a run's first entry. Refuses journals of another chart or format. */
export function beginFold(started: RunStarted): ChartState {
  if (started.format !== JOURNAL_FORMAT) {
    throw new EngineError(
      'chart-mismatch',
      `Run ${started.runId} has journal format ${started.format}; this program reads format ${JOURNAL_FORMAT}. ` +
        'Open it with the version of agentchart that wrote it.',
      { found: started.format, expected: JOURNAL_FORMAT },
    );
  }
  assertChart(started.chart);
  return initial(started).state;
}

function foldEntries(state: ChartState, seq: number, entries: readonly JournalEntry[], runId: string) {
  const last = entries.at(-1)?.seq ?? seq;
  return { state: entries.reduce((before, entry) => foldEntry(before, entry, runId), state), seq: last };
}

/** The state after one more entry. An entry the chart does not take was never written by this engine. */
export function foldEntry(state: ChartState, { seq, event }: JournalEntry, runId: string): ChartState {
  switch (event.type) {
    case 'run.claimed':
    case 'tool.late':
    case 'run.noted':
      return state;
    case 'run.started':
      throw damaged(runId, seq, 'is a second run.started');
    default: {
      const step = next(state, event);
      if (step.handled) return step.state;
      throw damaged(runId, seq, `(${event.type}) does not fit the state ${JSON.stringify(state.value)}`);
    }
  }
}

function damaged(runId: string, seq: number, problem: string): EngineError {
  return new EngineError(
    'journal-damaged',
    `The journal of run ${runId} is damaged: entry ${seq} ${problem}.`,
    {
      runId,
      seq,
    },
  );
}

/** The image shares its parts with the state, which never changes. */
export function makeImage(state: ChartState, inherited?: readonly Item[]): JsonValue {
  const stored = toStored(state);
  return (inherited === undefined ? { state: stored } : { state: stored, inherited }) as JsonValue;
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

export function isAtRest(state: ChartState): boolean {
  return state.hasTag('rest');
}

export function hasEnded(state: ChartState): boolean {
  return state.status !== 'active';
}

export function statusOf(state: ChartState): RunStatus {
  if (hasEnded(state)) return state.value as Extract<RunStatus, 'finished' | 'failed' | 'cancelled'>;
  return isAtRest(state) ? 'waiting' : 'running';
}
