import type { NextAction } from '../protocol/effect.ts';
import type { Item } from '../protocol/item.ts';
import { omitUndefined } from '../protocol/json.ts';
import { isOutcome } from '../protocol/message.ts';
import { findBreakpoint, spends } from './breakpoints.ts';
import { callsWith, isOwed } from './calls.ts';
import { reasonToCompact } from './compaction.ts';
import type { Call, Context } from './context.ts';
import { findHeldLimit, findReachedLimit, hasUncheckedLimit } from './limits.ts';

/**
 * Returns the next action of a run, from its context alone. Called after every wait.
 * A run that is being cancelled starts nothing and rests until `run.cancelled` ends it. A paused run takes no action
 * that spends, except for its allowed steps; with `holdsAtEnd` it does not finish by itself either. A breakpoint holds
 * the actions that it matches, except for allowed steps.
 */
export function decideNextAction(context: Context): NextAction {
  if (context.cancelling !== null) return { type: 'pause', why: describeCancel(context.cancelling) };
  const next = chooseAction(context);
  if (context.paused && context.steps > 0) return next;
  const hit = findBreakpoint(context, next);
  if (hit !== undefined)
    return {
      type: 'pause',
      breakpoint: hit.id,
      why: `breakpoint ${hit.id} before ${next.type} (${next.why})`,
    };
  if (!context.paused) return next;
  if (!spends(next) && !(next.type === 'finish' && context.config.holdsAtEnd === true)) return next;
  return { type: 'pause', why: `paused before ${next.type} (${next.why})` };
}

function describeCancel({ by, reason }: NonNullable<Context['cancelling']>): string {
  const who = by === undefined ? 'being cancelled' : `being cancelled by ${by}`;
  return reason === undefined ? who : `${who}: ${reason}`;
}

export function chooseAction(context: Context): NextAction {
  if (context.signIns.length > 0) return awaitSignIn(context.signIns);
  if (context.config.compaction?.only === true) return compactOnce(context);
  if (context.failure !== null) return afterFailure(context);
  if (context.open > 0) return withOpenCalls(context);
  if (context.review !== null)
    return { type: 'awaitReview', why: `the answer needs a review: ${context.review.reason}` };
  return betweenRounds(context);
}

function awaitSignIn(signIns: Context['signIns']): NextAction {
  const servers = signIns.map(({ server }) => server);
  return { type: 'awaitSignIn', servers, why: `a person must sign in at ${servers.join(', ')}` };
}

/** A run that only compacts ends with its transcript compacted, or fails. */
function compactOnce({ failure, compaction }: Context): NextAction {
  if (failure !== null)
    return { type: 'fail', code: failure.code, message: failure.message, why: failure.message };
  if (compaction.count > 0) return { type: 'finish', check: false, why: 'the conversation was compacted' };
  return { type: 'compact', why: 'the run only compacts' };
}

/** In this order: run the permitted calls, ask to resolve doubts, ask for approvals and answers, wait for results. */
function withOpenCalls(context: Context): NextAction {
  const ready = callsWith(context, 'ready');
  if (context.batch > 0) {
    const owed = context.calls.filter(call => isOwed(call) || call.status === 'ready');
    return { type: 'executeTools', calls: ids(owed), why: `resuming ${count(owed)}` };
  }
  if (ready.length > 0) return { type: 'executeTools', calls: ids(ready), why: `${count(ready)} may run` };
  const doubted = callsWith(context, 'doubted');
  if (doubted.length > 0) {
    return {
      type: 'resolveDoubt',
      calls: ids(doubted),
      why: `${count(doubted)} may or may not have happened`,
    };
  }
  const gated = callsWith(context, 'gated');
  if (gated.length > 0) {
    return {
      type: 'interruptForApproval',
      calls: ids(gated),
      why: `${count(gated)} ${gated.length === 1 ? 'needs' : 'need'} a decision`,
    };
  }
  const asking = callsWith(context, 'asking');
  if (asking.length > 0)
    return { type: 'awaitAnswers', calls: ids(asking), why: `${count(asking)} asked a question` };
  const waiting = callsWith(context, 'waiting');
  return { type: 'awaitResults', calls: ids(waiting), why: `waiting for results of ${count(waiting)}` };
}

/** After a failed turn: the same model again, the next model, or the end. `resume` repeats an interrupted attempt. */
export type FailureWay = 'retry' | 'fallback' | 'give-up' | 'resume';

export function chooseFailureWay(context: Context): FailureWay {
  const { failure, turn, config } = context;
  if (failure?.unfinished === true) return 'resume';
  if (failure?.retryable === true && turn.attempt < config.attempts) return 'retry';
  return turn.model + 1 < config.models.length ? 'fallback' : 'give-up';
}

/** When all attempts have failed, the next model takes over for the rest of the run. */
function afterFailure(context: Context): NextAction {
  const { failure, turn, config, now } = context;
  if (failure === null) throw new Error('afterFailure needs a failure');
  const way = chooseFailureWay(context);
  if (way === 'give-up')
    return { type: 'fail', code: failure.code, message: failure.message, why: failure.message };
  if (way === 'resume') {
    const { final: isFinal } = turn;
    const limit = context.closing === null ? {} : { limit: context.closing };
    const why = `attempt ${turn.attempt} of turn ${turn.number} was not finished`;
    return isFinal ? { type: 'streamFinal', ...limit, why } : { type: 'callModel', why };
  }
  const attempt = `attempt ${turn.attempt + 1} of ${config.attempts} after ${failure.code}`;
  if (way === 'retry' && failure.retryAt !== null) {
    const wait = failure.retryAt > now ? `, in ${failure.retryAt - now} ms` : '';
    return { type: 'backOff', until: failure.retryAt, why: attempt + wait };
  }
  const fallback = config.models[turn.model + 1]?.model;
  const why =
    way === 'retry' ? attempt : `${failure.code} after ${turn.attempt} attempts: falling back to ${fallback}`;
  if (context.closing !== null) return { type: 'streamFinal', limit: context.closing, why };
  return callWithinLimits(context, why, turn.final ? 'streamFinal' : 'callModel');
}

/** The run waits for work that its calls have started, before it ends or because of what that work may spend. */
function awaitBackground({ background }: Context, because = ''): NextAction {
  const calls = background.map(({ callId }) => callId);
  const names = [...new Set(background.map(({ name }) => name))].join(', ');
  const why = `waiting for the background work of ${plural(calls.length, 'call')} of ${names}${because}`;
  return { type: 'awaitResults', calls, why };
}

/** Without open calls, the last turn, unread messages and limits decide whether to call the model again. */
function betweenRounds(context: Context): NextAction {
  const { lastTurn, inbox, config } = context;
  if (context.onlyCall !== undefined) return { type: 'finish', check: false, why: 'the call has its result' };
  if (hasUncheckedLimit(context)) return finish(context, 'usage-unknown');
  if (context.stoppedBy !== undefined)
    return {
      type: 'finish',
      check: false,
      reason: 'rule',
      why: `stopped by the rule "${context.stoppedBy}"`,
    };
  if (context.closing !== null && lastTurn?.final === true) return finish(context, context.closing);
  const { answeredBy } = context;
  const readsOutcome = inbox.some(isOutcome);
  if (answeredBy !== null && context.sentBack === null && !readsOutcome)
    return finishAnswered(context, answeredBy);
  const reason = reasonToCall(context);
  if (reason !== null) return callWithinLimits(context, reason);
  if (lastTurn === null) return callWithinLimits(context, 'the run starts');
  if (inbox.length > 0) return callWithinLimits(context, plural(inbox.length, 'unread message'));
  if (lastTurn.draft)
    return callWithinLimits(context, 'planning is complete: requesting the separate answer', 'streamFinal');
  return finish(context, incompleteReason(context));

  function reasonToCall({ sentBack }: Context): string | null {
    if (sentBack?.reviewed === true) return 'a person sent the answer back';
    if (sentBack !== null && context.blocks <= config.answerBlocks)
      return `the answer was sent back, ${context.blocks} of ${config.answerBlocks}`;
    if (context.edited && !context.answerChecked)
      return endsWithAnswer(context) ? null : 'the transcript was edited';
    if (lastTurn === null || lastTurn.final) return null;
    if (lastTurn.calls > 0 && lastTurn.finishReason !== 'content_filter') {
      return lastTurn.calls === 1 ? '1 call has its result' : `${lastTurn.calls} calls have their results`;
    }
    return lastTurn.finishReason === 'pause' ? 'the provider paused its turn' : null;
  }
}

export function endsWithAnswer({ transcript, lastTurn }: Context): boolean {
  const last = transcript.at(-1);
  return lastTurn !== null && last !== undefined && isAnswer(last);
}

export function isAnswer(item: Item): boolean {
  return item.type === 'message' && item.role === 'assistant';
}

/** A turn cut off by the provider or a filter, or a paused closing turn, leaves the answer incomplete. */
function incompleteReason({ lastTurn }: Context): string | undefined {
  const reason = lastTurn?.finishReason;
  return reason === 'length' || reason === 'content_filter' || reason === 'pause' ? reason : undefined;
}

/**
 * When a limit is reached, one closing call with tools off answers from the transcript, or the run stops. It also stops
 * if a limit cannot be checked: a closing call would spend more of what is not counted.
 */
function callWithinLimits(
  context: Context,
  why: string,
  type: 'callModel' | 'streamFinal' = 'callModel',
): NextAction {
  if (hasUncheckedLimit(context)) return finish(context, 'usage-unknown');
  const reached = findReachedLimit(context);
  const held = reached === null && context.failure === null ? findHeldLimit(context) : undefined;
  if (reached !== null && context.background.length > 0 && context.closing === null)
    return awaitBackground(context, `, before the last call at the limit ${reached.limit}`);
  if (held !== undefined) return awaitBackground(context, `, which may spend the rest of the limit ${held}`);
  if (reached === null) {
    const size = type === 'callModel' && context.failure === null ? reasonToCompact(context) : null;
    return size === null ? { type, why } : { type: 'compact', why: `${size}, before the next call: ${why}` };
  }
  if (context.config.onLimit === 'stop' || context.closing !== null) return finish(context, reached.limit);
  return { type: 'streamFinal', limit: reached.limit, why: reached.why };
}

function finish(context: Context, reason: string | undefined): NextAction {
  const { config, answerChecked, blocks, sentBack } = context;
  if (sentBack !== null) {
    const what = sentBack.reviewed === true ? 'sent back' : 'refused';
    const often =
      sentBack.reviewed === true || blocks === 1 ? '' : ` ${plural(blocks, 'time')}, most recently`;
    const message = `the answer was ${what}${often}: ${sentBack.reason}`;
    return { type: 'fail', code: sentBack.code, message, why: message };
  }
  if (context.background.length > 0) return awaitBackground(context);
  return {
    type: 'finish',
    check: config.checksAnswer && !answerChecked,
    why: reason === undefined ? 'the model answered' : `the answer is incomplete: ${reason}`,
    ...omitUndefined({ reason }),
  };
}

/** The answer is a sub-agent's. What hands the conversation back is none, so nothing checks it. */
function finishAnswered(context: Context, by: NonNullable<Context['answeredBy']>): NextAction {
  if (by.type === 'back') {
    if (context.background.length > 0) return awaitBackground(context);
    return { type: 'finish', check: false, why: 'the conversation is handed back' };
  }
  const done = finish(context, by.incomplete);
  return done.type === 'finish' && by.incomplete === undefined
    ? { ...done, why: `${by.agent} answered` }
    : done;
}

function ids(calls: Call[]): string[] {
  return calls.map(call => call.callId);
}

function count(calls: Call[]): string {
  const names = new Set(calls.map(call => call.name));
  return `${plural(calls.length, 'call')} of ${[...names].join(', ')}`;
}

function plural(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? '' : 's'}`;
}
