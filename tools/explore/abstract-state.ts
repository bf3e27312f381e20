import type { Call, Context } from '../../machines/context.ts';
import { isAnswered } from '../../machines/decide-next-action.ts';
import { type ChartState, statePath } from '../../machines/step.ts';
import type { Limits } from '../../protocol/config.ts';
import { findSpentLimit, mostFailures, type Spending } from './environment/spending.ts';
import type { ReferenceCall, ReferenceModel } from './reference/reference-model.ts';

/**
 * How much of a run two places must have in common to be one.
 * - `chart`: what the chart can still tell apart;
 * - `calls`: also which calls are open, and what became of them;
 * - `history`: also what became of the calls before;
 * - `changed`: what the chart as it is cannot tell apart, and one with other actions or guards could.
 */
export type Detail = 'chart' | 'calls' | 'history' | 'changed';

/**
 * What of a state can still matter, as a key. Left out is what only grows (times, generations, texts,
 * usage, how far a limit is while it is far), what the next turn overwrites before it is read, and of a
 * call what its status has made irrelevant. The reference's part keeps apart what only a defect makes differ.
 */
export function abstractState(
  state: ChartState,
  reference: ReferenceModel,
  detail: Detail = 'chart',
): string {
  const { context } = state;
  const place = statePath(state);
  const seen = lookBack(context, reference, detail);
  if (state.status !== 'active') return `${place}|${seen}`;
  if (context.cancelling !== null) return `${place}|cancelling|${context.calls.map(({ status }) => status)}`;
  const inTurn = place.startsWith('turn') || context.failure !== null;
  return [
    place,
    context.inbox.length,
    inTurn ? abstractTurn(context) : abstractLastTurn(context),
    context.turn.model,
    context.calls.map(call => abstractCall(call, context, detail)),
    context.sticky.map(({ tool, decision }) => `${decision} ${tool}`),
    [
      abstractSpending(reference.spending, context.config.limits),
      context.deniedCalls > 0,
      context.closing !== null,
    ],
    [Math.min(context.rejections, context.config.finisherRejections + 1), context.sentBack !== null],
    context.paused ? context.steps : 'runs',
    [context.finishersDone, context.timer !== null],
    [context.edited && isAnswered(context), context.edited, context.resultsAt !== null],
    abstractLedger(reference),
    seen,
  ].join('|');
}

function abstractTurn({ turn, failure, now }: Context): string {
  if (failure?.unfinished === true) return `${turn.attempt} ${turn.final} given up`;
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

function abstractCall(call: Call, context: Context, detail: Detail): string {
  const status = abstractStatus(call, context);
  if (detail === 'chart') return status;
  if (detail !== 'changed') return `${status} ${nameCall(call)}`;
  return `${status} ${call.name} ${call.edited === true} ${Math.min(MOST_ALIKE, call.attempt)} ${call.result?.isError}`;
}

function lookBack(context: Context, reference: ReferenceModel, detail: Detail): string {
  if (detail === 'history') return summarize(reference.done);
  return detail === 'changed' ? summarizeForChanged(context, reference) : '';
}

/** The beginnings of what a run can have behind it, and where the chart's counts are not the events'. */
function summarizeForChanged(
  { turns, toolCalls, edits, sticky }: Context,
  reference: ReferenceModel,
): string {
  const { spending, messages, done, calls } = reference;
  const ends = new Set(
    [...done, ...calls].map(({ call, starts, result, approved }) =>
      [call.gate, approved, starts > 0, result === null, result?.isError].join(),
    ),
  );
  const most = (count: number) => Math.min(MOST_ALIKE, count);
  return [
    most(spending.turns),
    most(messages.length),
    most(edits.length),
    most(sticky.length),
    [...ends].sort().join(' '),
    turns - spending.turns,
    toolCalls - spending.toolCalls,
  ].join();
}

function nameCall({ name, input, edited, result }: Call): string {
  return JSON.stringify([name, input, edited, result]);
}

function abstractStatus(call: Call, { now }: Context): string {
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

/** A limit is near when the next turn can reach it, or a round of two calls can pass it. */
function abstractSpending(spending: Spending, limits: Limits): string {
  const { turns, toolCalls } = spending;
  const far = (used: number, limit: number, near: number) => Math.max(-2, Math.min(near, limit - used));
  const failures =
    limits.repeatedFailures === undefined ? 0 : Math.min(mostFailures(spending), limits.repeatedFailures);
  return [
    far(turns, limits.turns, 2),
    far(toolCalls, limits.toolCalls, 3),
    findSpentLimit(spending, limits) !== null,
    failures,
  ].join();
}

/** The same for every run the chart leads rightly, once its own part is the same. */
function abstractLedger({
  calls,
  inbox,
  paused,
  steps,
  closing,
  final,
  unfinished,
  shown,
}: ReferenceModel): string {
  const open = calls.map(({ stage, approved, mayStart, call }) =>
    stage === 'settled' ? 'settled' : `${stage}${call.gate && !approved ? '!' : ''}${mayStart ? '' : '1'}`,
  );
  return `${open} ${inbox.length} ${paused ? steps : ''} ${closing} ${final} ${unfinished} ${shown}`;
}

/** More of one kind than two is two. */
const MOST_ALIKE = 2;

/** What became of the calls of finished rounds, by kind. */
function summarize(done: readonly ReferenceCall[]): string {
  const kinds = new Map<string, number>();
  for (const { call, input, starts, result } of done) {
    const outcome = result === null ? 'refused' : result.isError ? 'error' : result.output;
    const kind = JSON.stringify([call.name, input, starts > 0, outcome]);
    kinds.set(kind, Math.min(MOST_ALIKE, (kinds.get(kind) ?? 0) + 1));
  }
  return [...kinds]
    .map(([kind, count]) => `${count} ${kind}`)
    .sort()
    .join();
}
