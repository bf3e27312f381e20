import { isOfChart } from '../../machines/fold.ts';
import { type ChartState, initial, next, type Step } from '../../machines/step.ts';
import type { NextAction } from '../../protocol/effect.ts';
import { EngineError, messageOf } from '../../protocol/error.ts';
import type { RunEvent } from '../../protocol/event.ts';
import { isRunEvent } from '../../protocol/is-run-event.ts';
import { type JsonValue, omitUndefined, toJson } from '../../protocol/json.ts';
import { countRedactions } from '../../protocol/redaction.ts';
import { checkDigests } from '../journal/check-digests.ts';
import { beginFold, hashState } from '../journal/load-run.ts';

/**
 * Replay: folds a journal again and compares the states with the stored snapshot, hashes and record. `replay-run.ts`
 * replays a run of a store, `export-run.ts` and `replay-export.ts` handle exports, and `record-run.ts` makes recordings
 * for tests.
 *
 * P1 Nothing is executed: no service starts, no agent is needed, no store is written.
 * P2 Replay ends at the first entry that differs from the recorded one, that the chart does not accept, or whose
 *    digests are wrong. Redacted values are counted, and the digests of redacted inputs accepted unchecked.
 */

/** A replayed entry with the state after it, and `next` if the chart decided something. */
export type ReplayedEntry = {
  runId: string;
  seq: number;
  event: RunEvent;
  state: ChartState;
  next?: NextAction;
};

/** The result of a replay. */
export type ReplayReport = {
  runId: string;
  /** Whether no problem was found. */
  equal: boolean;
  /** The number of replayed entries. */
  entries: number;
  /** The number of entries in the journal; more than `entries` if only a part was replayed. */
  of: number;
  /** The number of redacted values in the replayed entries. */
  redacted: number;
  /** The stored state that replay compared with, in words; `null` if only the journal is stored. */
  comparedWith: string | null;
  /** The state after the last replayed entry; `null` without one. */
  end: { state: ChartState; hash: string } | null;
  /** The first entry with a problem. */
  problem?: Problem;
};

/** `until`: the seq of the last entry to replay. */
export type ReplayOptions = { until?: number | undefined };
export type ReplayObserver = (entry: ReplayedEntry) => void;
/** An entry before validation. */
export type Recorded = { seq: number; event: RunEvent | JsonValue };
/** A journal with checks that compare it with what was stored. Faults are worded to follow "entry n". */
export type ReplayedRecording = {
  runId: string;
  entries: readonly Recorded[];
  of: number;
  comparedWith: string | null;
  checkEntry?(entry: Recorded, place: number): string | null;
  /** Returns the fault of the state after an entry. */
  checkState?(state: ChartState, seq: number): string | null;
  /** Returns the problem of the final state. */
  checkEnd?(state: ChartState): Problem | null;
};
/** A problem and its entry; `message` is worded to follow "entry n". */
export type Problem = { seq: number; message: string };

/** Replays a journal. Throws `chart-mismatch` for a journal of another chart or format. */
export function replayJournal(
  { runId, entries, of, comparedWith, ...checks }: ReplayedRecording,
  observe: ReplayObserver,
): ReplayReport {
  let state: ChartState | null = null;
  let replayed = 0;
  let redacted = 0;
  const end = (problem: Problem | null): ReplayReport => ({
    runId,
    equal: problem === null,
    entries: replayed,
    of,
    redacted,
    comparedWith,
    end: state === null ? null : { state, hash: hashState(state) },
    ...(problem !== null && { problem }),
  });
  for (const entry of entries) {
    const place = replayed + 1;
    const fault = findFault(() => checks.checkEntry?.(entry, place) ?? null);
    if (fault !== null) return end({ seq: place, message: fault });
    const { event } = entry;
    if (!isRunEvent(event)) return end({ seq: place, message: 'is not an event that this version knows' });
    const wrongDigest = checkDigests(state, event);
    if (wrongDigest !== null) return end({ seq: place, message: wrongDigest });
    const step = takeEvent(state, event);
    if (typeof step === 'string') return end({ seq: place, message: step });
    state = step.state;
    replayed = place;
    redacted += countRedactions(toJson(event));
    observe({ runId, seq: place, event, state, ...decisionOf(step) });
    const difference = checks.checkState?.(state, place) ?? null;
    if (difference !== null) return end({ seq: place, message: difference });
  }
  return end(state === null ? { seq: 1, message: 'is missing' } : (checks.checkEnd?.(state) ?? null));
}

function takeEvent(state: ChartState | null, event: RunEvent): Step | string {
  if (event.type === 'run.started') {
    if (state !== null) return 'is a second run.started';
    beginFold(event);
    return initial(event);
  }
  if (state === null) return 'is not run.started';
  if (!isOfChart(event)) return { state, effects: [], handled: true };
  const step = next(state, event);
  return step.handled ? step : `(${event.type}) does not fit the state ${JSON.stringify(state.value)}`;
}

function decisionOf({ effects }: Step): { next?: NextAction } {
  const decided = effects.flatMap(effect =>
    effect.type === 'publish' && effect.notice.type === 'decided' ? [effect.notice.next] : [],
  );
  return omitUndefined({ next: decided.at(-1) });
}

/** A check that throws, e.g. for a value nested too deeply to be hashed, counts as a fault. */
function findFault(check: () => string | null): string | null {
  try {
    return check();
  } catch (error) {
    return `cannot be read: ${messageOf(error)}`;
  }
}

/** The entries up to `until`, counted from 1. Throws `input-invalid`, with the valid range in its details. */
export function cutJournal<Entry>(
  entries: readonly Entry[],
  until: number | undefined,
  runId: string,
): readonly Entry[] {
  if (until === undefined) return entries;
  const last = entries.length;
  if (Number.isInteger(until) && until >= 1 && until <= last) return entries.slice(0, until);
  throw new EngineError(
    'input-invalid',
    `Expected the last entry of run ${runId} to replay, a whole number from 1 to ${last}; got ${until}.`,
    { runId, first: 1, last },
  );
}
