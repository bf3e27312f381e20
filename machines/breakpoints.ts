import type { Breakpoint } from '../protocol/debugger/breakpoint.ts';
import type { NextAction } from '../protocol/effect.ts';
import type { JsonValue } from '../protocol/json.ts';
import { countRedactions, isRedaction } from '../protocol/redaction.ts';
import { findCall } from './calls.ts';
import type { Call, Context } from './context.ts';

/*
 * Breakpoints: predicates on the next action, as data.
 *
 * P1 A matching breakpoint holds the action until a person unpauses the run or requests a step.
 * P2 The action that a person let past is not held again, even if it is decided again: the same kind of action, of the
 *    same turn, without further calls or attempts.
 * P3 Setting breakpoints starts nothing: a run that one of them held stays paused.
 */

export function findBreakpoint(context: Context, next: NextAction): Breakpoint | undefined {
  if (context.breakpoints.length === 0 || isPassed(context, next)) return undefined;
  return context.breakpoints.find(breakpoint => matches(breakpoint, context, next));
}

/** Lets the action past the breakpoint that holds it, and removes those that match once. */
export function passBreakpoint(context: Context, next: NextAction): Context {
  if (context.next?.type !== 'pause' || context.next.breakpoint === undefined) return context;
  const { breakpoints } = context;
  return {
    ...context,
    breakpoints: breakpoints.filter(one => one.once !== true || !matches(one, context, next)),
    passed: { type: next.type, turn: turnOf(context, next), calls: callsOf(context, next).map(nameAttempt) },
  };
}

function isPassed(context: Context, next: NextAction): boolean {
  const { passed } = context;
  if (passed?.type !== next.type || passed.turn !== turnOf(context, next)) return false;
  return callsOf(context, next).every(call => passed.calls.includes(nameAttempt(call)));
}

function nameAttempt({ callId, attempt }: Call): string {
  return `${callId} ${attempt}`;
}

function matches(breakpoint: Breakpoint, context: Context, next: NextAction): boolean {
  const { next: type, tool, turn, costOver, where } = breakpoint;
  if (type === undefined ? !spends(next) : type !== next.type) return false;
  if (turn !== undefined && turn !== turnOf(context, next)) return false;
  if (costOver !== undefined && context.cost <= costOver) return false;
  if (tool === undefined && where === undefined) return true;
  const matched = context.matched?.[breakpoint.id];
  return callsOf(context, next).some(
    call =>
      (tool === undefined || call.name === tool) &&
      (where === undefined || matchesInput(where, call, matched)),
  );
}

export function spends(next: NextAction): boolean {
  switch (next.type) {
    case 'callModel':
    case 'streamFinal':
    case 'executeTools':
    case 'compact':
      return true;
    case 'finish':
      return next.check;
    case 'interruptForApproval':
    case 'awaitReview':
    case 'awaitAnswers':
    case 'awaitSignIn':
    case 'awaitResults':
    case 'resolveDoubt':
    case 'backOff':
    case 'pause':
    case 'fail':
      return false;
  }
}

/** The turn of an action. A model call begins a turn, or repeats a failed one. */
function turnOf({ turn, failure }: Context, { type }: NextAction): number {
  const begins = failure === null && (type === 'callModel' || type === 'streamFinal');
  return begins ? turn.number + 1 : turn.number;
}

function callsOf(context: Context, next: NextAction): Call[] {
  return 'calls' in next ? next.calls.flatMap(callId => findCall(context, callId) ?? []) : [];
}

type Where = NonNullable<Breakpoint['where']>;

/** `matched`: the digests of the calls that met the condition before values were redacted. */
export function matchesInput(
  where: Where,
  { input, digest }: Pick<Call, 'input' | 'digest'>,
  matched?: readonly string[],
): boolean {
  if (matched !== undefined && (isRedaction(where.value) || countRedactions(input) > 0))
    return matched.includes(digest);
  return compare(where, input);
}

function compare({ path, op, value }: Where, input: JsonValue): boolean {
  const found = valueAt({ input }, path);
  if (found === undefined) return false;
  if (op === '=') return found === value;
  if (op === '!=') return found !== value;
  const isOrdered =
    (typeof found === 'number' && typeof value === 'number') ||
    (typeof found === 'string' && typeof value === 'string');
  if (!isOrdered) return false;
  switch (op) {
    case '<':
      return found < value;
    case '<=':
      return found <= value;
    case '>':
      return found > value;
    case '>=':
      return found >= value;
  }
}

/** Own members only: a path never reaches a prototype. */
function valueAt(root: JsonValue, path: string): JsonValue | undefined {
  let value: JsonValue | undefined = root;
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as Record<string, JsonValue>)[name];
  }
  return value;
}
