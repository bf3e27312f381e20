import { type ChartState, initial, next, type Step } from '../../machines/step.ts';
import type { NextAction } from '../../protocol/effect.ts';
import { EngineError, messageOf } from '../../protocol/error.ts';
import type { RunEvent } from '../../protocol/event.ts';
import { isRunEvent } from '../../protocol/is-run-event.ts';
import { type JsonValue, toJson } from '../../protocol/json.ts';
import { countRedactions } from '../../protocol/redaction.ts';
import { beginFold, hashState } from '../journal/load-run.ts';
import { checkDigests } from './export-run.ts';

/**
 * Replaying: a journal is folded again with the results it recorded, and what comes out is held against
 * what was stored of it.
 *
 * P1 Nothing is executed: no service starts, no agent is needed, no store is written.
 * P2 The first entry that is not the recorded one, that the chart does not take, or whose digests are not of
 *    the inputs they stand for, ends the replay. A redacted input is counted, and its digest believed.
 */

/** An entry, and where the run stands behind it; `next` when something was decided there. */
export type ReplayedEntry = {
  runId: string;
  seq: number;
  event: RunEvent;
  state: ChartState;
  next?: NextAction;
};

export type ReplayReport = {
  runId: string;
  equal: boolean;
  /** How many were replayed. */
  entries: number;
  /** How many there are: more, when only the beginning was to be replayed. */
  of: number;
  /** How many values in those were redacted: of them only the digest is there. */
  redacted: number;
  /** What the fold was held against; `null` when only the journal is stored. */
  comparedWith: string | null;
  /** Behind the last entry that was replayed; `null` when there is none. */
  end: { state: ChartState; hash: string } | null;
  /** The first entry that differs or does not fit, and how. */
  problem?: Problem;
};

/** `until`: the last entry that is replayed. */
export type ReplayOptions = { until?: number | undefined };
export type ReplayObserver = (entry: ReplayedEntry) => void;
export type Recorded = { seq: number; event: RunEvent | JsonValue };
/** A journal, and what it is held against. */
export type Recording = {
  runId: string;
  entries: readonly Recorded[];
  /** How many the whole journal has. */
  of: number;
  comparedWith: string | null;
  /** What is wrong with an entry, before it is replayed. */
  checkEntry?(entry: Recorded, place: number): string | null;
  /** What is wrong with the state behind an entry. */
  checkState?(state: ChartState, seq: number): string | null;
  /** What is wrong with the end, and at which entry. */
  checkEnd?(state: ChartState): Problem | null;
};
export type Problem = { seq: number; message: string };

/** Throws `chart-mismatch` for a journal of another chart or format. */
export function replayJournal(
  { runId, entries, of, comparedWith, ...checks }: Recording,
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
    ...(problem === null ? {} : { problem }),
  });
  for (const entry of entries) {
    const place = replayed + 1;
    const fault = findFault(() => checks.checkEntry?.(entry, place) ?? null);
    if (fault !== null) return end({ seq: place, message: fault });
    const { event } = entry;
    if (!isRunEvent(event)) return end({ seq: place, message: 'is no event this version knows' });
    const unlike = checkDigests(state, event);
    if (unlike !== null) return end({ seq: place, message: unlike });
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
  switch (event.type) {
    case 'run.started':
      if (state !== null) return 'is a second run.started';
      beginFold(event);
      return initial(event);
    case 'run.claimed':
    case 'tool.late':
    case 'run.noted':
    case 'run.redacted':
      return state === null ? 'is not run.started' : { state, effects: [], handled: true };
    default: {
      if (state === null) return 'is not run.started';
      const step = next(state, event);
      return step.handled ? step : `(${event.type}) does not fit the state ${JSON.stringify(state.value)}`;
    }
  }
}

function decisionOf({ effects }: Step): { next?: NextAction } {
  const decided = effects.flatMap(effect =>
    effect.type === 'publish' && effect.notice.type === 'decided' ? [effect.notice.next] : [],
  );
  const last = decided.at(-1);
  return last === undefined ? {} : { next: last };
}

/** A value that is nested too deeply to be hashed is a fault like any other. */
function findFault(check: () => string | null): string | null {
  try {
    return check();
  } catch (error) {
    return `cannot be read: ${messageOf(error)}`;
  }
}

/**
 * The entries up to `until`, counted from 1; all of them without one. Throws `input-invalid`, with the range
 * in its details, when it is no entry of the journal.
 */
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
    `Expected an entry of run ${runId} to replay it to, a whole number from 1 to ${last}; got ${until}.`,
    { runId, first: 1, last },
  );
}
