import { callsWith, queueReadyCalls } from './calls.ts';
import type { Context } from './context.ts';
import { chooseFailureWay, decideNextAction, type FailureWay } from './decide-next-action.ts';

/* The entry actions of the states. Each runs before the service of the state starts. */

/** Stores the next action. A run that a breakpoint holds is paused. */
export function decideNext(context: Context): Context {
  const next = decideNextAction(context);
  const isHeld = next.type === 'pause' && next.breakpoint !== undefined;
  return { ...context, next, paused: context.paused || isHeld };
}

/** Starts a new turn, or the next attempt of a failed one. Unread messages move into the transcript. */
export function beginTurn(context: Context): Context {
  const spent = spend(context);
  const { turn, failure, next, inbox } = spent;
  const way = failure === null ? null : chooseFailureWay(context);
  const final = next?.type === 'streamFinal';
  const limit = next?.type === 'streamFinal' ? next.limit : undefined;
  return {
    ...spent,
    generation: context.generation + 1,
    failure: null,
    inbox: [],
    transcript: inbox.length === 0 ? context.transcript : [...context.transcript, ...inbox],
    closing: limit ?? context.closing,
    finishersDone: false,
    sentBack: null,
    edited: false,
    turn: {
      number: way === null ? turn.number + 1 : turn.number,
      attempt: attemptAfter(turn.attempt, way),
      model: way === 'fallback' ? turn.model + 1 : turn.model,
      final,
      shown: false,
    },
  };
}

function attemptAfter(attempt: number, way: FailureWay | null): number {
  if (way === 'retry') return attempt + 1;
  return way === 'resume' ? attempt : 1;
}

export function beginBatch(context: Context): Context {
  return { ...queueReadyCalls(spend(context)), generation: context.generation + 1, activeSince: null };
}

export function beginFinishing(context: Context): Context {
  return { ...spend(context), generation: context.generation + 1 };
}

export function beginBackOff(context: Context): Context {
  const until = context.next?.type === 'backOff' ? context.next.until : context.now;
  return { ...context, generation: context.generation + 1, timer: until };
}

/** Sets a timer for the earliest expiry of an open approval, unless the run is being cancelled. */
export function beginRest(context: Context): Context {
  if (context.cancelling !== null) return { ...context, timer: null };
  const due = callsWith(context, 'gated')
    .map(call => call.expiresAt)
    .filter(expiresAt => expiresAt !== undefined);
  const timer = due.length === 0 ? null : Math.min(...due);
  return { ...context, generation: timer === null ? context.generation : context.generation + 1, timer };
}

export function endWait(context: Context): Context {
  return context.timer === null ? context : { ...context, timer: null };
}

function spend(context: Context): Context {
  return context.paused ? { ...context, steps: Math.max(0, context.steps - 1) } : context;
}
