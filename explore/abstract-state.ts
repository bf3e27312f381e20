import { isAskedByRule } from '../machines/calls.ts';
import { reasonToCompact } from '../machines/compaction.ts';
import type { Call, Context } from '../machines/context.ts';
import { endsWithAnswer } from '../machines/decide-next-action.ts';
import { dutiesOf, hasDuties } from '../machines/duties.ts';
import { deedKeyOf } from '../machines/ledger.ts';
import { type ChartState, statePath } from '../machines/step.ts';
import type { Limits } from '../protocol/config.ts';
import type { Environment } from './environment.ts';
import {
  findSpentLimit,
  findUncheckedLimit,
  mostFailures,
  type ReferenceCall,
  type ReferenceModel,
} from './reference-model.ts';

/**
 * What distinguishes two states during a walk.
 * - `chart`: everything that the chart can still distinguish;
 * - `calls`: also the open calls and their results;
 * - `history`: also the outcomes of earlier calls;
 * - `changed`: also what only a chart with changed actions or guards could distinguish.
 */
export type Detail = 'chart' | 'calls' | 'history' | 'changed';

type Distinguished = Pick<Environment, 'judges' | 'excludesSenders' | 'rules'> & {
  /** The digests of the calls that may follow: no other deed can be repeated. Default: of any calls. */
  repeatable?: ReadonlySet<string>;
};

/**
 * All that can affect what follows; where guardrails judge, also whether there is anything to judge, and where approvals
 * exclude senders, how many there are, and where rules judge calls, which of them have begun. The reference model's part differs only if the chart has a defect.
 */
export function abstractState(
  state: ChartState,
  reference: ReferenceModel,
  detail: Detail = 'chart',
  { judges = false, excludesSenders = false, rules = false, repeatable }: Distinguished = {},
): string {
  const { context } = state;
  const place = statePath(state);
  const past = abstractPast(context, reference, detail);
  if (state.status !== 'active') return `${place}|${past}`;
  if (context.cancelling !== null)
    return `${place}|cancelling|${context.calls.map(({ status }) => status)}|${context.signIns.length}`;
  const inTurn = place.startsWith('turn') || context.failure !== null;
  return [
    place,
    [context.inbox.length, context.background.length, context.signIns.length],
    inTurn ? abstractTurn(context) : abstractLastTurn(context),
    context.turn.model,
    context.calls.map(call => [
      abstractCall(call, context, detail),
      rules || call.verdicts !== undefined ? abstractJudged(call) : '',
    ]),
    context.sticky.map(({ tool, decision }) => `${decision} ${tool}`),
    [abstractSpending(reference, reference.config.limits), context.deniedCalls > 0, context.closing !== null],
    [
      Math.min(context.blocks, context.config.answerBlocks + 1),
      context.sentBack !== null,
      context.sentBack?.reviewed,
    ],
    abstractReview(context),
    context.paused ? context.steps : 'runs',
    excludesSenders || detail === 'changed' ? context.people.senders.length : '',
    abstractBreakpoints(context),
    [context.answeredBy?.type, context.stoppedBy !== undefined],
    [context.answerChecked, context.timer !== null, judges && context.judgedTo < context.transcript.length],
    abstractCompaction(context, repeatable),
    [context.edited && endsWithAnswer(context), context.edited, context.resultsAt !== null],
    abstractReference(reference),
    past,
  ].join('|');
}

/** Before its first compaction, a run's deeds gate nothing; without compaction, they never do. */
function abstractCompaction(context: Context, repeatable: Distinguished['repeatable']): string {
  const { config, compaction, ledger } = context;
  if (config.compaction === undefined) return '';
  const isDue = reasonToCompact(context) !== null;
  const { done, past } = listDeeds(ledger, repeatable);
  return [isDue, compaction.from === null, [...new Set(done)].sort(), past.sort()].join(' ');
}

function listDeeds({ fresh, past }: Context['ledger'], repeatable: Distinguished['repeatable']) {
  const done = fresh.flatMap(({ outcome, digest }) => (outcome === 'failed' ? [] : [digest]));
  const keys = Object.keys(past);
  if (repeatable === undefined) return { done, past: keys };
  const known = new Set([...repeatable].map(deedKeyOf));
  return {
    done: done.filter(digest => repeatable.has(digest)),
    past: keys.filter(key => known.has(key)),
  };
}

function abstractReview({ review, now }: Context): string {
  if (review === null) return '';
  const duties = hasDuties(review) ? JSON.stringify([dutiesOf(review), review.approvedBy]) : '';
  return `${abstractExpiry(review, now)} ${review.edited === true} ${duties}`;
}

function abstractBreakpoints({ breakpoints, passed, turn }: Context): string {
  const isOld = passed === null || passed.turn < turn.number;
  if (breakpoints.length === 0 && isOld) return '';
  const past = isOld ? '' : `${passed.type} ${passed.turn - turn.number} ${passed.calls.length}`;
  return `${breakpoints.map(({ id }) => id)} ${past}`;
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
  return `${cutOff || paused ? finishReason : 'over'} ${final} ${draft} ${calls > 0}`;
}

function abstractCall(call: Call, context: Context, detail: Detail): string {
  const status = abstractStatus(call, context);
  if (detail === 'chart') return status;
  if (detail !== 'changed') return `${status} ${nameCall(call)}`;
  return `${status} ${call.name} ${call.edited === true} ${Math.min(MAX_COUNT, call.attempt)} ${call.result?.isError}`;
}

/** What rules may still say of a call, and what they have said. */
function abstractJudged(call: Call): string {
  if (call.status === 'settled') return '';
  const judged = call.verdicts === undefined ? '' : `judged ${isAskedByRule(call)}`;
  return `${call.name} ${call.attempt > 0} ${judged}`;
}

function abstractPast(context: Context, reference: ReferenceModel, detail: Detail): string {
  if (detail === 'history') return summarize(reference.done);
  return detail === 'changed' ? summarizeForChanged(context, reference) : '';
}

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
  const capped = (count: number) => Math.min(MAX_COUNT, count);
  return [
    capped(spending.turns),
    capped(messages.length),
    capped(edits.length),
    capped(sticky.length),
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
  const kind = `${riskOf(call)}${answersOf(call)}`;
  const by = call.executedBy === 'client' ? 'client' : kind;
  const approvedBy = call.status === 'gated' ? call.approvedBy : undefined;
  const asked = asksOf(call, now);
  const duties = asked + (hasDuties(call) ? ` ${JSON.stringify([dutiesOf(call), approvedBy])}` : '');
  if (call.status === 'ready' && call.attempt > 0) return `again ${kind}${duties}`;
  return call.status === 'gated'
    ? `gated ${call.name} ${by} ${abstractExpiry(call, now)}${duties}`
    : `${call.status} ${by}${duties}`;
}

/** What the call asks, how often it has asked, and whether it has kept how far it has come. */
function asksOf({ asked, asks = 0, kept }: Call, now: number): string {
  const open = asked?.questions.map(
    one => `${one.key} ${abstractExpiry(one, now)}${hasDuties(one) ? JSON.stringify(dutiesOf(one)) : ''}`,
  );
  return `${asks === 0 ? '' : ` asked ${asks} ${open?.join() ?? ''}`}${kept === undefined ? '' : ' kept'}`;
}

function abstractExpiry({ expiresAt }: Pick<Call, 'expiresAt'>, now: number): string {
  if (expiresAt === undefined) return 'open';
  return expiresAt <= now ? 'expired' : 'expires';
}

/** How the call answers for the run, and whether no model made it. */
function answersOf({ answers, forwards }: Call): string {
  if (answers === undefined) return '';
  return forwards === undefined ? ` answers ${answers}` : ' forwards';
}

function riskOf({ sideEffect, reconcilable }: Call): string {
  if (sideEffect !== 'once') return 'safe';
  return reconcilable ? 'reconcilable' : 'once';
}

/** A limit is near when the next turn and background work can reach it, or a round of two calls can exceed it. */
function abstractSpending(
  { spending, background }: Pick<ReferenceModel, 'spending' | 'background'>,
  limits: Limits,
): string {
  const { turns, toolCalls } = spending;
  const far = (used: number, limit: number, near: number) => Math.max(-2, Math.min(near, limit - used));
  const failures =
    limits.repeatedFailures === undefined ? 0 : Math.min(mostFailures(spending), limits.repeatedFailures);
  return [
    far(turns, limits.turns, 2 + background.length),
    far(toolCalls, limits.toolCalls, 3),
    findSpentLimit(spending, limits) !== null,
    findUncheckedLimit(spending, limits) !== null,
    failures,
  ].join();
}

function abstractReference({
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

const MAX_COUNT = 2;

function summarize(done: readonly ReferenceCall[]): string {
  const kinds = new Map<string, number>();
  for (const { call, input, starts, result } of done) {
    const kind = JSON.stringify([call.name, input, starts > 0, outcomeOf(result)]);
    kinds.set(kind, Math.min(MAX_COUNT, (kinds.get(kind) ?? 0) + 1));
  }
  return [...kinds]
    .map(([kind, count]) => `${count} ${kind}`)
    .sort()
    .join();
}

function outcomeOf(result: ReferenceCall['result']) {
  if (result === null) return 'refused';
  return result.isError ? 'error' : result.output;
}
