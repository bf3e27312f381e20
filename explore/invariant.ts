import type { Context } from '../machines/context.ts';
import type { ChartState } from '../machines/step.ts';
import type { Effect } from '../protocol/effect.ts';
import { invalidInput, messageOf } from '../protocol/error.ts';
import type { ChartEvent, RunStarted } from '../protocol/event.ts';

/** A step of a run, the argument of every invariant. */
export type Moment = {
  /** The context after the event. */
  context: Context;
  /** The XState value after the event: `'executingTools'`, `{ resting: 'paused' }`. */
  value: ChartState['value'];
  event: RunStarted | ChartEvent;
  /** The run before the event; `null` for the start. */
  before: { context: Context; value: ChartState['value'] } | null;
  /** The effects of the event: services to start and stop, decisions to publish. */
  effects: readonly Effect[];
  /** All events of the run, this one included. */
  events: readonly (RunStarted | ChartEvent)[];
};

/**
 * A condition that must hold at every step. Returning `false` or a non-empty message, or throwing, reports a breach;
 * any other value does not. Must be a pure function: the same step is checked in many runs.
 */
export type Invariant = (moment: Moment) => boolean | string | undefined | null;

/** Invariants by name, or a list of named functions. */
export type Invariants =
  | Readonly<Record<string, Invariant>>
  | readonly (Invariant | { name: string; holds: Invariant })[];

export type NamedInvariant = { name: string; holds: Invariant };

const EXPECTED = 'Expected { [name]: ({ context, value, event, before }) => boolean | string | undefined }';

/** Throws `input-invalid` for an invariant that is not a function, and for a duplicate name. */
export function nameInvariants(invariants: Invariants): NamedInvariant[] {
  const named = isList(invariants)
    ? invariants.map((entry, index) =>
        typeof entry === 'function' ? { name: entry.name || `invariant ${index + 1}`, holds: entry } : entry,
      )
    : Object.entries(invariants).map(([name, holds]): NamedInvariant => ({ name, holds }));
  const names = new Set<string>();
  for (const { name, holds } of named) {
    if (typeof holds !== 'function')
      throw invalidInput(`${EXPECTED}, but the invariant "${name}" is ${typeof holds}.`);
    if (names.has(name)) throw invalidInput(`${EXPECTED}, but two invariants are named "${name}".`);
    names.add(name);
  }
  return named;
}

function isList(invariants: Invariants): invariants is readonly (Invariant | NamedInvariant)[] {
  return Array.isArray(invariants);
}

export function findBreach({ holds }: NamedInvariant, moment: Moment): string | null {
  try {
    const verdict: unknown = holds(moment);
    if (verdict === false) return 'it does not hold';
    if (verdict instanceof Promise)
      return 'the invariant is asynchronous; it must return its answer directly';
    return typeof verdict === 'string' && verdict !== '' ? verdict : null;
  } catch (error) {
    return `it threw: ${messageOf(error)}`;
  }
}

type MomentParts = {
  before: ChartState | null;
  event: Moment['event'];
  after: ChartState;
  effects: readonly Effect[];
  listEvents(): Moment['events'];
  /** Called when an invariant reads the transcript or the events: its answer may then depend on earlier rounds. */
  onLookBack?(): unknown;
};

export function makeMoment({ before, event, after, effects, listEvents, onLookBack }: MomentParts): Moment {
  const read = ({ context, value }: ChartState) => ({ context: watchReads(context, onLookBack), value });
  return {
    ...read(after),
    event,
    before: before && read(before),
    effects,
    get events() {
      onLookBack?.();
      return listEvents();
    },
  };
}

function watchReads(
  context: ChartState['context'],
  onRead: (() => unknown) | undefined,
): ChartState['context'] {
  if (onRead === undefined) return context;
  const read = () => {
    onRead();
    return context.transcript;
  };
  return Object.defineProperty({ ...context }, 'transcript', { enumerable: true, get: read });
}
