import type { Call, Context } from '../../machines/context.ts';
import { isAnswered } from '../../machines/decide-next-action.ts';
import type { ChartState } from '../../machines/step.ts';
import { placeOf } from './builders.ts';

/**
 * What of a state can still matter, as a key. Left out is what only grows (times, generations, texts,
 * usage), what the next turn overwrites before it is read, and of a call what its status has made
 * irrelevant. `exploration.test.ts` checks that states with one key go on alike.
 */
export function abstractState(state: ChartState): string {
  const { context } = state;
  const place = placeOf(state);
  if (state.status !== 'active') return place;
  const inTurn = place.startsWith('turn') || context.failure !== null;
  return [
    place,
    context.inbox.length,
    inTurn ? abstractTurn(context) : abstractLastTurn(context),
    context.turn.model,
    context.calls.map(call => abstractCall(call, context)),
    context.sticky.map(({ tool, decision }) => `${decision} ${tool}`),
    [context.turns, context.toolCalls, context.deniedCalls > 0, context.closing !== null],
    [Math.min(context.rejections, context.config.finisherRejections + 1), context.sentBack !== null],
    context.paused ? context.steps : 'runs',
    [context.finishersDone, context.timer !== null],
    [context.edited && isAnswered(context), context.edited, context.resultsAt !== null],
  ].join('|');
}

function abstractTurn({ turn, failure, now }: Context): string {
  const failed = failure === null ? 'runs' : `${failure.retryable} ${(failure.retryAt ?? 0) > now}`;
  return `${turn.attempt} ${turn.final} ${turn.shown} ${failed}`;
}

function abstractLastTurn({ lastTurn }: Context): string {
  if (lastTurn === null) return 'none';
  const { finishReason, calls, final, draft } = lastTurn;
  if (calls > 0 && !final && finishReason !== 'content_filter') return 'calls';
  const cutOff = finishReason === 'length' || finishReason === 'content_filter';
  const paused = finishReason === 'pause' && !final;
  return `${cutOff || paused ? finishReason : 'over'} ${final} ${draft}`;
}

function abstractCall(call: Call, { now }: Context): string {
  if (call.status === 'settled') return 'settled';
  const by = call.executedBy === 'client' ? 'client' : riskOf(call);
  if (call.status !== 'gated') return `${call.status} ${by}`;
  const expiry = call.expiresAt === undefined ? 'open' : call.expiresAt <= now ? 'expired' : 'expires';
  return `gated ${call.name} ${by} ${expiry}`;
}

function riskOf({ sideEffect, reconcilable }: Call): string {
  if (sideEffect !== 'once') return 'safe';
  return reconcilable ? 'reconcilable' : 'once';
}
