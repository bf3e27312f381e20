import type { Context } from '../../../machines/context.ts';
import type { ChartState } from '../../../machines/step.ts';
import type { Effect } from '../../../protocol/effect.ts';
import { EngineError, messageOf } from '../../../protocol/error.ts';
import type { ChartEvent, RunStarted } from '../../../protocol/event.ts';

/** A step of a run, as a predicate sees it. */
export type Moment = {
  /** The run after the event. */
  context: Context;
  /** The state it is in after the event, as XState has it: `'executingTools'`, `{ resting: 'paused' }`. */
  value: ChartState['value'];
  event: RunStarted | ChartEvent;
  /** The run before the event; `null` at its start. */
  before: { context: Context; value: ChartState['value'] } | null;
  /** What the chart asked for: services to start and to stop, decisions to publish. */
  effects: readonly Effect[];
  /** All events of the run, this one included. */
  events: readonly (RunStarted | ChartEvent)[];
};

/**
 * Must hold at every step. `false`, a text (not an empty one) that says what is wrong, and throwing are a breach; anything
 * else is none. A function of its argument alone: the same step is looked at in many runs.
 */
export type Invariant = (moment: Moment) => boolean | string | undefined | null;

/** By name, or functions that have a name of their own. */
export type Invariants =
  | Readonly<Record<string, Invariant>>
  | readonly (Invariant | { name: string; holds: Invariant })[];

export type NamedInvariant = { name: string; holds: Invariant };

/** Throws `input-invalid` for what is no predicate, and for two of one name. */
export function nameInvariants(invariants: Invariants): NamedInvariant[] {
  const named = isList(invariants)
    ? invariants.map((given, index) =>
        typeof given === 'function' ? { name: given.name || `invariant ${index + 1}`, holds: given } : given,
      )
    : Object.entries(invariants).map(([name, holds]): NamedInvariant => ({ name, holds }));
  const names = new Set<string>();
  for (const { name, holds } of named) {
    if (typeof holds !== 'function') throw invalid(`the invariant "${name}" is ${typeof holds}`);
    if (names.has(name)) throw invalid(`two invariants are named "${name}"`);
    names.add(name);
  }
  return named;
}

function isList(invariants: Invariants): invariants is readonly (Invariant | NamedInvariant)[] {
  return Array.isArray(invariants);
}

/** What a predicate says is wrong, or `null`. */
export function findBreach({ holds }: NamedInvariant, moment: Moment): string | null {
  try {
    const verdict: unknown = holds(moment);
    if (verdict === false) return 'it does not hold';
    if (verdict instanceof Promise) return 'the predicate is asynchronous: it has to answer at once';
    return typeof verdict === 'string' && verdict !== '' ? verdict : null;
  } catch (error) {
    return `it threw: ${messageOf(error)}`;
  }
}

function invalid(what: string): EngineError {
  const expected = 'Expected { [name]: ({ context, value, event, before }) => boolean | string | undefined }';
  return new EngineError('input-invalid', `${expected}, and ${what}.`);
}
