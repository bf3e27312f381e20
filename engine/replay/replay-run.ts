import { fromStored, type StoredState, toStored } from '../../machines/snapshot.ts';
import type { ChartState } from '../../machines/step.ts';
import { findDifference } from '../../protocol/content/find-difference.ts';
import type { JournalEntry } from '../../protocol/event.ts';
import { canonicalJson, type JsonValue, omitUndefined, toJson } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import { foldEntry, hashState, readImage } from '../journal/load-run.ts';
import { readFromStart, readPage, readUnredacted } from '../journal/read-journal.ts';
import { findBlobFaults, RunBlobs } from '../journal/run-blobs.ts';
import { compareRecord, exportedStanding } from './export-run.ts';
import {
  cutJournal,
  type ReplayedRecording,
  type ReplayObserver,
  type ReplayOptions,
  type ReplayReport,
  replayJournal,
} from './replay-journal.ts';

/** Checks results, hashes, snapshot and record too. Throws as `readFromStart`, `chart-mismatch`, `input-invalid` for `until`. */
export async function replayRun(
  store: Store,
  runId: string,
  observe: ReplayObserver = () => {},
  { until }: ReplayOptions = {},
): Promise<ReplayReport> {
  const stored = await readUnredacted(store, runId, async ({ redactions }) => {
    const record = await store.get(runId);
    const snapshot = await store.loadSnapshot(runId);
    const journal = await readFromStart(store, runId, 'Replay');
    const entries = cutJournal(journal, until, runId);
    const blobs = new RunBlobs({ store, host: {}, runId });
    const faults = await findBlobFaults(entries, blob => blobs.findFault(blob));
    // Refused if a redaction has committed since: then the parts are of different journals.
    await readPage(store, runId, journal.length, omitUndefined({ redactions }));
    return { record, snapshot, journal, entries, faults };
  });
  const { record, snapshot, journal, entries, faults } = stored;
  const checkAt = (state: ChartState, at: number): string | null => {
    const { stateHash } = journal[at - 1] ?? {};
    if (stateHash !== undefined && stateHash !== hashState(state))
      return `leads to a state with another hash than the recorded one: ${stateHash}`;
    if (at !== record?.seq) return null;
    const difference = compareRecord(record, journal[0].event, exportedStanding(journal.slice(0, at), state));
    return difference === null ? null : `contradicts the run's record: ${difference}`;
  };
  const hashed = entries.flatMap(({ seq, stateHash }) => (stateHash === undefined ? [] : [seq]));
  const recording: ReplayedRecording = {
    runId,
    entries,
    of: journal.length,
    comparedWith: describeHashes(hashed),
    checkEntry: ({ seq }) => faults.get(seq) ?? null,
    checkState: checkAt,
  };
  if (snapshot === undefined || snapshot.seq > (until ?? Number.POSITIVE_INFINITY))
    return replayJournal(recording, observe);
  const { seq } = snapshot;
  const compareFrom = (rest: readonly JournalEntry[], state: ChartState) =>
    compareStates(foldOn(snapshot.state, rest, runId), toStored(state));
  return replayJournal(
    {
      ...recording,
      comparedWith: [`the snapshot at entry ${seq}`, describeHashes(hashed)].filter(Boolean).join(' and '),
      checkState: (state, at) => (at === seq ? compareFrom([], state) : null) ?? checkAt(state, at),
      checkEnd: state => {
        if (seq > entries.length)
          return { seq: entries.length + 1, message: `is missing: the snapshot is of entry ${seq}` };
        const message = compareFrom(entries.slice(seq), state);
        return message === null ? null : { seq: entries.length, message };
      },
    },
    observe,
  );
}

function describeHashes(places: readonly number[]): string | null {
  const last = places.at(-1);
  if (last === undefined) return null;
  return places.length === 1
    ? `the hash of the state at entry ${last}`
    : `the hashes of ${places.length} states up to entry ${last}`;
}

/** Folds the entries after a snapshot; returns `null` if the snapshot or a fold fails. */
function foldOn(image: JsonValue, rest: readonly JournalEntry[], runId: string): StoredState | null {
  try {
    const { state: stored } = readImage(image, runId);
    if (rest.length === 0) return stored;
    return toStored(rest.reduce((state, entry) => foldEntry(state, entry, runId), fromStored(stored)));
  } catch {
    return null;
  }
}

function compareStates(stored: StoredState | null, replayed: StoredState): string | null {
  if (stored === null) return 'cannot be compared with the stored snapshot, which is damaged';
  const [left, right] = [toJson(stored), toJson(replayed)];
  if (canonicalJson(left) === canonicalJson(right)) return null;
  return `leads to a state that differs from the stored snapshot at ${findDifference(left, right)}`;
}
