import type { RunConfig } from '../protocol/config.ts';
import type { ChartEvent, QualifiedCall, RunEvent } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import { canonicalJson, omitUndefined } from '../protocol/json.ts';
import { costOf } from '../protocol/listing/cost.ts';
import { textOf } from '../protocol/message.ts';
import { passBreakpoint } from './breakpoints.ts';
import {
  callsWith,
  changeCall,
  findCall,
  giveReceipt,
  giveReceipts,
  isAskedByRule,
  isBusy,
  openRound,
  qualifiedOf,
  receiptOf,
  replaceCall,
  resultOf,
  settleCall,
  stopperOf,
} from './calls.ts';
import { compactTranscript, failCompaction, isWhole, measureTurn } from './compaction.ts';
import type { Call, CallStatus, Context, LastTurn } from './context.ts';
import { chooseAction, isAnswer } from './decide-next-action.ts';
import { type Bar, countApproval, findBar, fitsGate, hasDuties, isApprovedBy, withSender } from './duties.ts';
import { forwardMessages, takeAnswer } from './hand-off.ts';
import { gateRepetition, recordBegun, recordItems, recordOutcome, UNBEGUN } from './ledger.ts';
import { addSpent, addUsage, heldOf, limitsOf, modelOf } from './limits.ts';
import { answerQuestions, askQuestions, canAnswer, expireQuestions, withoutQuestions } from './questions.ts';
import {
  blockAnswer,
  canReview,
  decideReview,
  expireReview,
  findReviewBar,
  passAnswer,
  requestReview,
  withdrawReview,
} from './review.ts';

type Of<Type extends ChartEvent['type']> = Extract<ChartEvent, { type: Type }>;

type Folded<Type extends ChartEvent['type']> = {
  /** Whether the chart takes it. Default: always. */
  takes?(context: Context, event: Of<Type>): boolean;
  fold(context: Context, event: Of<Type>): Context;
};

const FOLDED: { readonly [Type in ChartEvent['type']]: Folded<Type> } = {
  'message.received': { takes: isExpected, fold: receiveMessage },
  'approval.decided': { takes: canDecide, fold: decideApproval },
  'review.decided': { takes: canReview, fold: decideReview },
  'result.received': {
    takes: (context, { callId, childRunId }) => {
      const call = findCall(context, callId);
      return call?.status === 'waiting' && call.childRunId === childRunId;
    },
    fold: (context, event) => {
      const written = event.childRunId === undefined ? wroteIn(context, event) : context;
      const settled = settleCall(addSpent(written, event.spent), event.callId, resultOf(event));
      return takeAnswer(settled, context, event);
    },
  },
  'sign-in.completed': {
    takes: ({ signIns }, { server }) => signIns.some(one => one.server === server),
    fold: (context, { server }) => ({ ...context, signIns: signInsWithout(context, server) }),
  },
  'question.answered': { takes: canAnswer, fold: answerQuestions },
  'doubt.resolved': {
    takes: (context, event) =>
      hasStatus('doubted')(context, event) && mayChange(context, event.callId, event),
    fold: resolveDoubt,
  },
  'transcript.edited': { takes: canEdit, fold: editTranscript },
  'turn.edited': { takes: canEditTurn, fold: editTurn },
  'call.edited': { takes: canEditCall, fold: editCall },
  'breakpoints.set': {
    fold: ({ matched: _, ...context }, { breakpoints, matched }) => ({
      ...context,
      breakpoints,
      ...omitUndefined({ matched }),
    }),
  },
  'params.changed': { fold: (context, event) => ({ ...wroteIn(context, event), params: event.params }) },
  'pause.requested': { takes: ({ paused }) => !paused, fold: context => ({ ...context, paused: true }) },
  'cancel.requested': {
    takes: ({ cancelling }) => cancelling === null,
    fold: (context, { type: _, at, requestId, asked, ...cancelling }) => ({ ...context, cancelling }),
  },
  'step.requested': {
    fold: context => ({
      ...continueFrom(context),
      paused: true,
      quarantined: null,
      steps: context.steps + 1,
    }),
  },
  'run.unpaused': {
    takes: ({ paused }) => paused,
    fold: context => ({ ...continueFrom(context), paused: false, quarantined: null, steps: 0 }),
  },
  'run.quarantined': { fold: quarantine },
  'run.cancelled': { fold: context => context },
  'items.judged': { takes: fitsTranscript, fold: judgeItems },
  'text.started': { fold: context => ({ ...context, turn: { ...context.turn, shown: true } }) },
  'calls.started': { fold: context => context },
  'turn.completed': { fold: completeTurn },
  'turn.failed': { fold: failTurn },
  'transcript.compacted': {
    takes: isWhole,
    fold(context, event) {
      const compacted = compactTranscript(context, event);
      const left = context.transcript.length - Math.max(context.judgedTo, event.upTo);
      return { ...compacted, judgedTo: compacted.transcript.length - left };
    },
  },
  'compaction.failed': { fold: failCompaction },
  'call.judged': { takes: canJudge, fold: judgeCall },
  'sign-in.requested': {
    fold: (context, { server, url }) => {
      const signIns = [...signInsWithout(context, server), { server, ...omitUndefined({ url }) }];
      return { ...leaveUnfinished(context, `needs a sign-in at "${server}"`), signIns };
    },
  },
  'question.asked': {
    takes: hasStatus('queued', 'running', 'reconciling'),
    fold: (context, event) => askQuestions(endActivity(context, event.at), event),
  },
  'tool.started': {
    takes: hasStatus('queued', 'running', 'reconciling'),
    fold: (context, { at, callId, attempt, key }) =>
      changeCall(beginActivity(context, at), callId, { status: 'running', attempt, key }),
  },
  'tool.settled': { takes: canSettle, fold: settleTool },
  'tool.kept': {
    takes: hasStatus('running'),
    fold: (context, { callId, state }) => changeCall(context, callId, { kept: state }),
  },
  'tool.interrupted': {
    takes: hasStatus('running'),
    fold: (context, { at, callId }) => interruptTool({ ...context, activeSince: at }, callId),
  },
  'tool.doubted': {
    takes: hasStatus('running', 'reconciling'),
    fold: (context, { at, callId, reason }) =>
      changeCall(endActivity(context, at), callId, { status: 'doubted', doubt: reason }),
  },
  'tool.suspended': {
    takes: hasStatus('running'),
    fold: suspendTool,
  },
  'timer.fired': { fold: fireTimer },
  'answer.checked': { fold: passAnswer },
  'answer.blocked': { fold: blockAnswer },
  'review.requested': { fold: requestReview },
};

/** Returns the context after an event. Pure; the guards have already checked that the event is allowed. */
export function fold(context: Context, event: ChartEvent): Context {
  const now = event.at > context.now ? { ...context, now: event.at } : context;
  return entryOf(event.type).fold(now, event);
}

/** Whether the chart takes the event: if it is a report, only from the latest start of its service. */
export function takes(context: Context, event: ChartEvent): boolean {
  if ('generation' in event && event.generation !== context.generation) return false;
  return entryOf(event.type).takes?.(context, event) ?? true;
}

function signInsWithout({ signIns }: Context, server: string): Context['signIns'] {
  return signIns.filter(one => one.server !== server);
}

/** Takes an event about a call that has one of these statuses. */
function hasStatus(...statuses: readonly CallStatus[]) {
  return (context: Context, { callId }: { callId: string }): boolean => {
    const status = findCall(context, callId)?.status;
    return status !== undefined && statuses.includes(status);
  };
}

/** Before its start, a call settles only with an error. */
function canSettle(context: Context, event: Of<'tool.settled'>): boolean {
  const status = findCall(context, event.callId)?.status;
  return status === 'running' || status === 'reconciling' || (status === 'queued' && event.isError);
}

/** Whether the chart folds this event; the others are bookkeeping. `run.started` counts as bookkeeping here. */
export function isOfChart(event: RunEvent): event is ChartEvent {
  return Object.hasOwn(FOLDED, event.type);
}

function entryOf(type: ChartEvent['type']): Folded<ChartEvent['type']> {
  return FOLDED[type] as Folded<ChartEvent['type']>;
}

/** A breakpoint that holds the run does not hold the same action again. */
function continueFrom(context: Context): Context {
  return passBreakpoint(context, chooseAction(context));
}

/** The outcome of background work comes once, from the run that does the work. */
function isExpected({ background }: Context, { from }: Of<'message.received'>): boolean {
  if (from === undefined) return true;
  return background.some(({ callId, childRunId }) => callId === from.callId && childRunId === from.runId);
}

/**
 * A message waits for gated and asking calls and a review; with `onMessage: 'supersede'` it rejects and withdraws them,
 * except those whose effect may have begun. The outcome of background work only waits.
 */
function receiveMessage(context: Context, event: Of<'message.received'>): Context {
  const { from } = event;
  if (from !== undefined) return receiveOutcome(context, event, from);
  const received = { ...wroteIn(context, event), inbox: [...context.inbox, ...event.items] };
  if (context.config.onMessage === 'queue') return forwardMessages(received);
  const replaced = received.calls.filter(
    ({ status, attempt, sideEffect }) =>
      status === 'gated' || (status === 'asking' && (attempt === 0 || sideEffect !== 'once')),
  );
  const refused = replaced.reduce((state, { callId, attempt }) => {
    const output = `Not ${attempt > 0 ? 'finished' : 'run'}: superseded by a new message.`;
    return settleCall(state, callId, { output, isError: true });
  }, received);
  return forwardMessages(withdrawReview(refused));
}

/** The run's own model reads the outcome, also while the conversation is with a sub-agent. */
function receiveOutcome(
  context: Context,
  { items, spent }: Of<'message.received'>,
  from: { runId: string },
): Context {
  const work = context.background.find(({ childRunId }) => childRunId === from.runId);
  if (work === undefined) return context;
  const isError = items.some(item => item.type === 'message' && item.outcomeOf?.isError === true);
  const background = context.background.filter(one => one !== work);
  const received = { ...context, background, inbox: [...context.inbox, ...items] };
  return recordOutcome(countOutcome(addSpent(received, spent), work.digest, isError), work, isError);
}

function wroteIn(context: Context, { by }: { by?: string }): Context {
  const people = withSender(context.people, by);
  return people === context.people ? context : { ...context, people };
}

function refuseCalls(context: Context, calls: Call[], output: string): Context {
  return calls.reduce((state, { callId }) => settleCall(state, callId, { output, isError: true }), context);
}

function completeTurn(context: Context, event: Of<'turn.completed'>): Context {
  const { appended, sent } = event;
  const setup = sent?.setup ?? context.sent?.setup;
  const asked: Context = {
    ...context,
    sent: sent && setup ? { ...sent, setup } : null,
    transcript: appended === undefined ? context.transcript : [...context.transcript, ...appended],
  };
  const lastTurn = describeTurn(asked, event);
  const completed: Context = {
    ...asked,
    judgedTo: context.transcript.length,
    lastTurn,
    failure: null,
    turns: context.turns + 1,
    usage: addUsage(context.usage, event.usage),
    usageUnknown: context.usageUnknown || event.usage === null,
    cost: context.cost + costOf(event.usage, modelOf(context).model, context.config.prices),
    activeMs: context.activeMs + Math.max(0, event.at - event.startedAt),
    compaction: measureTurn(context, event),
    answer: answerOf(lastTurn, event.text),
  };
  const counted = addSpent(completed, event.spent);
  if (lastTurn.draft) return counted;
  const read = {
    ...recordItems(counted, event.items),
    transcript: [...counted.transcript, ...event.items],
    continuation: event.continuation ?? null,
  };
  return admitCalls(read, event.calls, whyNoneRuns(lastTurn));
}

/** Whether what guardrails made of items can take their place, and none of these was judged or sent before. */
function fitsTranscript({ transcript, judgedTo }: Context, { upTo, changes }: Of<'items.judged'>): boolean {
  if (upTo !== transcript.length || upTo <= judgedTo) return false;
  return changes.every(({ at, item }, index) => {
    const before = transcript[at];
    if (at < judgedTo || at <= (changes[index - 1]?.at ?? -1)) return false;
    if (before?.type === 'message') return item.type === 'message' && item.role === before.role;
    return before?.type === 'tool_result' && item.type === 'tool_result' && item.callId === before.callId;
  });
}

function judgeItems(context: Context, { upTo, changes, spent }: Of<'items.judged'>): Context {
  const items = new Map(changes.map(({ at, item }) => [at, item]));
  const transcript =
    items.size === 0 ? context.transcript : context.transcript.map((item, at) => items.get(at) ?? item);
  return { ...addSpent(context, spent), transcript, judgedTo: upTo };
}

/** Why no call of a turn may run: tools were off, or the turn was cut off. */
function whyNoneRuns({ final, finishReason }: LastTurn): string | null {
  if (final) return 'Not run: tools are off for the final answer.';
  if (finishReason === 'length') {
    return 'Not run: the reply was cut off at its length limit, so this call may be incomplete. Make it again, shorter.';
  }
  return finishReason === 'content_filter' ? 'Not run: the reply was stopped by a content filter.' : null;
}

/** Compares `retryAt` with the event's own time: the clock may have been set back since earlier events. */
function failTurn(context: Context, event: Of<'turn.failed'>): Context {
  const retryAt = event.retryAt ?? event.at;
  return {
    ...context,
    activeMs: context.activeMs + Math.max(0, event.at - event.startedAt),
    failure: { ...event.error, retryable: event.retryable, retryAt: retryAt > event.at ? retryAt : null },
  };
}

function quarantine(context: Context, { reason }: Of<'run.quarantined'>): Context {
  return { ...leaveUnfinished(context, reason), paused: true, quarantined: reason, steps: 0 };
}

/** Keeps unfinished work: the model call is repeated, and the batch continues with its unsettled calls. */
function leaveUnfinished(context: Context, message: string): Context {
  if (context.next?.type !== 'callModel' && context.next?.type !== 'streamFinal') return context;
  const failure = { code: 'unfinished', message, retryable: true, retryAt: null } as const;
  return { ...context, failure: { ...failure, unfinished: true } };
}

function settleTool(context: Context, event: Of<'tool.settled'>): Context {
  const { at, callId, isError, spent } = event;
  const digest = findCall(context, callId)?.digest;
  const ended = endActivity(context, at);
  const counted = digest === undefined ? ended : countOutcome(ended, digest, isError);
  const settled = settleCall(addSpent(counted, spent), callId, resultOf(event));
  return takeAnswer(settled, context, event);
}

/** Work in the background does not keep its call open: the call has its result, the receipt. */
function suspendTool(before: Context, event: Of<'tool.suspended'>): Context {
  const { at, callId, childRunId, shown, background: held } = event;
  const context = endActivity(before, at);
  if (held === undefined) return changeCall(context, callId, { status: 'waiting', childRunId });
  const call = findCall(context, callId);
  if (call === undefined) return context;
  const { name, input, digest, readDigest, tags, key = '' } = call;
  const work = { callId, name, input, digest, key, childRunId, held, ...omitUndefined({ readDigest, tags }) };
  const receipt = { ...receiptOf(childRunId), ...omitUndefined({ shown }) };
  const begun = recordBegun({ ...context, background: [...context.background, work] }, call);
  return giveReceipt(begun, callId, receipt);
}

/** A call without a recorded outcome continues, runs again with the same key, is reconciled, or becomes in doubt. */
function interruptTool(context: Context, callId: string): Context {
  const call = findCall(context, callId);
  if (call === undefined) return context;
  if (call.sideEffect !== 'once' || call.background === true || call.kept !== undefined)
    return changeCall(context, callId, { status: 'queued' });
  if (call.reconcilable) return changeCall(context, callId, { status: 'reconciling' });
  const doubt = 'The process that ran it stopped before its outcome was recorded.';
  return changeCall(context, callId, { status: 'doubted', doubt });
}

/** Ends the wait before a retry, or expires approvals and questions. */
function fireTimer(context: Context): Context {
  const waited =
    context.failure === null ? context : { ...context, failure: { ...context.failure, retryAt: null } };
  const expired = callsWith(waited, 'gated').filter(
    ({ expiresAt }) => expiresAt !== undefined && expiresAt <= waited.now,
  );
  return refuseCalls(
    expireQuestions(expireReview({ ...waited, timer: null })),
    expired,
    'Not run: the approval expired without a decision.',
  );
}

/** Active time counts only while a call runs, so the time in which no process drove the run does not count. */
function beginActivity(context: Context, at: number): Context {
  return isBusy(context) ? context : { ...context, activeSince: at };
}

function endActivity(context: Context, at: number): Context {
  const since = context.activeSince;
  return since === null || since === at
    ? context
    : { ...context, activeMs: context.activeMs + Math.max(0, at - since), activeSince: at };
}

function describeTurn(context: Context, event: Of<'turn.completed'>): LastTurn {
  const { config, turn, lastTurn, answer, transcript } = context;
  const { provider, finishReason } = event;
  const continues = lastTurn?.finishReason === 'pause' && lastTurn.calls === 0 && answer !== null;
  const completed = { provider, finishReason, calls: event.calls.length, final: turn.final };
  return {
    ...completed,
    draft: isDraft(config, completed),
    from: transcript.length,
    ...(continues && { before: answer.text }),
  };
}

type Completed = Pick<LastTurn, 'final' | 'calls' | 'finishReason'>;

/** Whether the turn only plans: the answer is one more call, with tools off. */
function isDraft(config: RunConfig, { final, calls, finishReason }: Completed): boolean {
  const over = finishReason !== 'pause' && finishReason !== 'content_filter';
  return config.finalAnswer === 'separate' && !final && calls === 0 && over;
}

/** The answer if the run ended after this turn. The text of a paused turn continues in the next one. */
function answerOf(turn: LastTurn, text: string): Context['answer'] {
  const asksForCalls = turn.calls > 0 && !turn.final && turn.finishReason !== 'content_filter';
  return asksForCalls || turn.draft ? null : { text: (turn.before ?? '') + text };
}

/** The text and the calls of the latest turn, as an edit of the turn replaces them. */
export function latestReply({ lastTurn, transcript, calls }: Context): {
  text: string;
  calls: Pick<Call, 'callId' | 'name' | 'input'>[];
} {
  const items = lastTurn?.from === undefined || lastTurn.draft ? [] : transcript.slice(lastTurn.from);
  const text = items
    .flatMap(item => (item.type === 'message' && item.role === 'assistant' ? [textOf(item)] : []))
    .join('');
  return { text, calls: calls.map(({ callId, name, input }) => ({ callId, name, input })) };
}

/** With `refusal`, none of the calls runs. A call of the current round stays as it is. */
function admitCalls(context: Context, qualified: QualifiedCall[], refusal: string | null): Context {
  let { toolCalls, deniedCalls } = context;
  const limits = limitsOf(context);
  const held = heldOf(context).toolCalls;
  const calls = qualified.map((call): Call => {
    const known = findCall(context, call.callId);
    if (known !== undefined) return known;
    const rest = { ...call, attempt: 0 };
    const refusedCall = (output: string): Call => ({
      ...rest,
      status: 'settled',
      result: { output, isError: true },
    });
    if (refusal !== null) return refusedCall(refusal);
    if (call.error !== undefined) return refusedCall(call.error);
    if (call.answers !== undefined && qualified.length > 1) return refusedCall(NOT_ALONE);
    const counts = call.executedBy === 'engine';
    if (counts && toolCalls + held >= limits.toolCalls) {
      deniedCalls += 1;
      return refusedCall(`Not run: the run's limit of ${limits.toolCalls} tool calls is reached.`);
    }
    if (counts) toolCalls += 1;
    const rule = stickyFor(context, call);
    if (rule?.decision === 'reject') return refusedCall(rejection(rule.reason));
    const repetition = gateRepetition(context.ledger, call);
    if (repetition !== undefined) return { ...rest, ...repetition, status: 'gated' };
    if (call.gate && rule === undefined) return { ...rest, status: 'gated' };
    return { ...rest, status: call.executedBy === 'client' ? 'waiting' : 'ready' };
  });
  const failed = qualified.filter(call => refusal === null && call.error !== undefined);
  const counted = failed.reduce((state, { digest }) => countOutcome(state, digest, true), context);
  const replaced = qualified.flatMap(({ replaced, callId, input }) =>
    replaced === true && findCall(context, callId) === undefined ? [{ callId, input }] : [],
  );
  const edits = replaced.length === 0 ? context.edits : [...context.edits, ...replaced];
  const opened = openRound({ ...counted, edits, toolCalls, deniedCalls }, calls);
  const admitted = qualified.reduce(
    (state, call) => (refusal === null ? stopFor(state, call) : state),
    opened,
  );
  return giveReceipts(admitted);
}

/** The decision about another call of the tool that decides this one too. An approval is of the tool as it was defined. */
function stickyFor({ sticky }: Context, call: QualifiedCall): Context['sticky'][number] | undefined {
  if (!isSticky(call)) return undefined;
  return sticky.find(
    ({ tool, toolDigest, decision }) =>
      tool === call.name && (decision === 'reject' || toolDigest === call.toolDigest),
  );
}

/** Whether decisions about other calls of the tool may decide this one. */
function isSticky(call: QualifiedCall): boolean {
  return call.gate && !hasDuties(call) && !isAskedByRule(call);
}

/** Ends the run if a rule says so of the call: none that has not begun runs, and those that have get their results. */
function stopFor(context: Context, call: Pick<QualifiedCall, 'verdicts'>): Context {
  const rule = stopperOf(call);
  if (rule === undefined) return context;
  const unbegun = context.calls.filter(({ status, attempt }) => UNBEGUN.has(status) && attempt === 0);
  return refuseCalls({ ...context, stoppedBy: rule }, unbegun, `Not run: stopped by the rule "${rule}".`);
}

/** Only before the first attempt: later ones repeat what was begun. */
function canJudge(context: Context, { callId }: Of<'call.judged'>): boolean {
  const call = findCall(context, callId);
  return call?.status === 'queued' && call.attempt === 0;
}

/** A verdict is about a call as it is, so it withdraws the approvals that were given before it. */
function judgeCall(context: Context, event: Of<'call.judged'>): Context {
  const { callId, reason, duties = {}, expiresAt } = event;
  const call = findCall(context, callId);
  if (call === undefined) return context;
  const verdicts = [...(call.verdicts ?? []), ...event.verdicts];
  const enforced = event.verdicts.filter(({ shadow }) => shadow !== true);
  if (enforced.length === 0) return changeCall(context, callId, { verdicts });
  if (enforced.every(({ verdict }) => verdict === 'ask')) {
    const gate = { status: 'gated', gate: true, ...duties, ...omitUndefined({ reason, expiresAt }) } as const;
    const { reason: _, expiresAt: __, ...bare } = withoutDuties(call);
    return replaceCall(context, call, bare, { ...gate, verdicts });
  }
  const judged = changeCall(context, callId, { verdicts });
  const counted = countOutcome(judged, call.digest, true);
  const output = `Not run: ${reason ?? 'a rule does not allow it.'}`;
  return stopFor(settleCall(counted, callId, { output, isError: true }), event);
}

const NOT_ALONE =
  'Not run: hand the conversation over in a turn of its own, once the other calls have their results.';

/** Counts consecutive failures of a call, if the run has a limit on them. */
function countOutcome(context: Context, digest: string, failed: boolean): Context {
  if (context.config.limits.repeatedFailures === undefined) return context;
  const { [digest]: before = 0, ...others } = context.failures;
  return { ...context, failures: failed ? { ...others, [digest]: before + 1 } : others };
}

function decideApproval(context: Context, event: Of<'approval.decided'>): Context {
  const { callId, decision } = event;
  const call = findCall(context, callId);
  if (call === undefined) return context;
  const ruled = event.sticky === true ? addStickyRule(context, call, decision) : context;
  switch (decision.type) {
    case 'approve':
      return giveReceipts(approveCall(ruled, call, event, decision));
    case 'reject':
      return settleCall(ruled, callId, { output: rejection(decision.reason), isError: true });
    case 'answer':
      return settleCall(ruled, callId, resultOf(decision));
  }
}

type Decision = Of<'approval.decided'>['decision'];

/**
 * A call with a quorum stays gated until enough people have approved it as it is. An input that turns the call into a
 * repetition needs an approval of its own: who gave it did not read what was done.
 */
function approveCall(
  context: Context,
  call: Call,
  event: Of<'approval.decided'>,
  { input, editDigest, duties = {}, verdicts }: Extract<Decision, { type: 'approve' }>,
) {
  if (input === undefined) return changeCall(context, call.callId, approvedBy(context, call, event));
  const digest = editDigest ?? call.digest;
  const { reason: _, ...rest } = { ...withoutDuties(call), input, digest, readDigest: digest };
  const changed = { ...rest, ...duties };
  const repetition = digest === call.digest ? undefined : gateRepetition(context.ledger, changed);
  const edited = replaceCall(context, call, withoutDuties(call), {
    input,
    digest,
    ...duties,
    ...omitUndefined({ verdicts }),
    ...(call.readDigest !== undefined && { readDigest: digest }),
    edited: true,
    ...(repetition === undefined ? approvedBy(context, changed, event) : { ...repetition, status: 'gated' }),
  });
  return { ...edited, edits: [...edited.edits, { callId: call.callId, input }] };
}

/** The call after this person's approval: it may run once the quorum is reached. */
function approvedBy({ people }: Context, call: Call, decider: Of<'approval.decided'>) {
  const status = call.executedBy === 'client' ? ('waiting' as const) : ('ready' as const);
  const { isEnough, ...counted } = countApproval(call, people, decider);
  return { ...counted, ...(isEnough && { status }) };
}

/** The call without what its approval was bound to. */
function withoutDuties({ by, not, quorum, approvedBy, verdicts, ...bare }: Call): Call {
  return bare;
}

/** A rule applies to later calls of the tool; an answer applies only to its own call. */
function addStickyRule(context: Context, { name: tool, toolDigest }: Call, decision: Decision): Context {
  if (decision.type === 'answer') return context;
  const rule = {
    tool,
    ...omitUndefined({ toolDigest }),
    decision: decision.type,
    ...(decision.type === 'reject' && decision.reason !== undefined ? { reason: decision.reason } : {}),
  };
  return { ...context, sticky: [...context.sticky.filter(other => other.tool !== tool), rule] };
}

function rejection(reason: string | undefined): string {
  return reason === undefined
    ? 'Not run: the call was rejected.'
    : `Not run: the call was rejected: ${reason}`;
}

/** A retry starts over: how far the call had come is no longer known. */
function resolveDoubt(context: Context, { callId, resolution }: Of<'doubt.resolved'>): Context {
  switch (resolution.type) {
    case 'retry': {
      const call = findCall(context, callId);
      if (call === undefined) return context;
      const { kept: _, ...bare } = call;
      return replaceCall(context, call, bare, { status: 'ready' });
    }
    case 'happened':
      return settleCall(context, callId, resultOf(resolution));
    case 'failed':
      return settleCall(context, callId, { output: resolution.reason, isError: true });
  }
}

/** Calls that the new transcript contains keep their status. Without open calls, an answer ends the run. */
function editTranscript(before: Context, event: Of<'transcript.edited'>): Context {
  const { items, calls } = event;
  const { stoppedBy: _, ...context } = wroteIn(before, event);
  const { lastTurn } = context;
  const last = items.at(-1);
  const edited: Context = {
    ...context,
    edited: true,
    transcript: items,
    judgedTo: judgedBefore(context, event),
    calls: keptCalls(context, event),
    resultsAt: endOfCalls(items, calls),
    continuation: null,
    sent: sentBefore(context, items),
    failure: null,
    sentBack: null,
    review: null,
    answerChecked: false,
    answer: last !== undefined && isAnswer(last) ? { text: textOf(last) } : null,
    answeredBy: null,
    lastTurn: lastTurn && withoutPlace(lastTurn),
  };
  return admitCalls(edited, calls, null);
}

/** An edit of what was sent is a break. */
function sentBefore({ sent, transcript }: Context, items: readonly Item[]): Context['sent'] {
  if (sent === null) return null;
  const read = transcript.slice(0, sent.items);
  const isKept = read.every(
    (item, at) => item === items[at] || canonicalJson(item) === canonicalJson(items[at] ?? null),
  );
  return sent.digest === undefined && isKept ? sent : { ...sent, cause: 'edit' };
}

/** What an edit leaves as it was needs no second judgement. Results of edited calls come before what is left. */
function judgedBefore({ transcript, judgedTo }: Context, { items, calls }: Of<'transcript.edited'>): number {
  const isKept = (item: Item, at: number) =>
    item === items[at] || canonicalJson(item) === canonicalJson(items[at] ?? null);
  const changed = transcript.slice(0, judgedTo).findIndex((item, at) => !isKept(item, at));
  const kept = changed === -1 ? judgedTo : changed;
  return Math.min(kept, endOfCalls(items, calls) ?? kept, items.length);
}

function withoutPlace({ provider, final }: LastTurn): LastTurn {
  return { provider, final, finishReason: 'stop', calls: 0, draft: false };
}

/** The calls of the edited round that are already known: from their given results or from the current round. */
function keptCalls(
  context: Context,
  { calls, results = [] }: Pick<Of<'transcript.edited'>, 'calls' | 'results'>,
): Call[] {
  const outcomes = new Map(results.map(({ callId, ...result }) => [callId, result]));
  return calls.flatMap((call): Call[] => {
    const result = outcomes.get(call.callId);
    if (result !== undefined) return [{ ...call, attempt: 0, status: 'settled', result }];
    const known = findCall(context, call.callId);
    return known?.digest === call.digest ? [known] : [];
  });
}

/** The index after the last of the calls; `null` if that is the end, or without calls. */
function endOfCalls(items: readonly Item[], calls: readonly QualifiedCall[]): number | null {
  const ids = new Set(calls.map(({ callId }) => callId));
  const place = items.findLastIndex(item => item.type === 'tool_call' && ids.has(item.callId)) + 1;
  return place === 0 || place === items.length ? null : place;
}

/** A call with the same id and digest keeps its status; others are admitted as new, and replaced ones do not count. */
function editTurn(before: Context, event: Of<'turn.edited'>): Context {
  const { stoppedBy: _, ...context } = wroteIn(before, event);
  const { lastTurn, transcript, config } = context;
  if (lastTurn?.from === undefined) return context;
  const { items, calls, text } = event;
  const finishReason = calls.length > 0 ? 'tool_calls' : 'stop';
  const counted = { ...lastTurn, calls: calls.length, finishReason } as const;
  const turn = { ...counted, draft: isDraft(config, counted) };
  const kept = keptCalls(context, { calls });
  const dropped = context.calls.filter(call => !kept.includes(call));
  const edited: Context = {
    ...context,
    lastTurn: turn,
    transcript: [...transcript.slice(0, lastTurn.from), ...(turn.draft ? [] : items)],
    judgedTo: Math.min(context.judgedTo, lastTurn.from),
    calls: kept,
    open: kept.length,
    resultsAt: null,
    continuation: null,
    review: null,
    answerChecked: false,
    toolCalls: context.toolCalls - dropped.filter(wasCounted).length,
    edits: context.edits.filter(({ callId }) => dropped.every(call => call.callId !== callId)),
    answer: answerOf(turn, text),
    answeredBy: null,
  };
  return admitCalls(edited, calls, null);
}

/** Whether the call counted as a tool call, and has not run. */
function wasCounted({ executedBy, status }: Call): boolean {
  return executedBy === 'engine' && (status === 'ready' || status === 'gated' || status === 'asking');
}

/**
 * Replaces a call that has not started. It needs an approval again, unless a sticky rule gives it; so does a repetition.
 * An edit that changes nothing only withdraws approvals, and its author does not count as a sender.
 */
function editCall(earlier: Context, event: Of<'call.edited'>): Context {
  const { callId, call } = event;
  const known = findCall(earlier, callId);
  if (known === undefined) return earlier;
  const isWithdrawal = isSameCall(known, call);
  const context = isWithdrawal ? earlier : wroteIn(earlier, event);
  const isAllowed = stickyFor(context, call)?.decision === 'approve';
  const ready = call.executedBy === 'client' ? 'waiting' : 'ready';
  const {
    reason: _,
    expiresAt: __,
    readDigest: ___,
    toolDigest: ____,
    replaced,
    ...before
  } = withoutDuties(withoutQuestions(known));
  const repetition = gateRepetition(context.ledger, call);
  const isGated = (call.gate && !isAllowed) || repetition !== undefined;
  const changed = replaceCall(context, known, before, {
    ...call,
    ...repetition,
    status: isGated ? 'gated' : ready,
    ...(!isWithdrawal && { edited: true }),
  });
  const edits = isWithdrawal ? changed.edits : [...changed.edits, { callId, input: call.input }];
  return giveReceipts({ ...changed, edits });
}

/** Whether the call is gated, has not expired, has the digest that the decision refers to, and is this person's to decide. */
export function canDecide(context: Context, event: Of<'approval.decided'>): boolean {
  const call = findCall(context, event.callId);
  if (call?.status !== 'gated' || !fitsGate(call, event)) return false;
  return findDutyFault(context, call, event) === null;
}

/** Why a decision about a gated call with duties does not count: a person's bar, or what no one can do; `null` if it does. */
export function findDutyFault(
  { people }: Context,
  call: Call,
  event: Of<'approval.decided'>,
): Bar | 'sticky' | 'answer' | 'repeated' | null {
  if (!hasDuties(call)) return event.sticky === true && isAskedByRule(call) ? 'sticky' : null;
  const bar = findBar(call, people, event);
  if (bar !== null) return bar;
  const { decision, sticky } = event;
  if (sticky === true) return 'sticky';
  if (decision.type === 'answer') return (call.quorum ?? 1) > 1 ? 'answer' : null;
  if (decision.type !== 'approve' || decision.input !== undefined) return null;
  return isApprovedBy(call, event) ? 'repeated' : null;
}

type Editor = { by?: string; groups?: readonly string[] };

/** Whether the call, if it has duties, is this person's to change. */
function mayChange(context: Context, callId: string, editor: Editor): boolean {
  const call = findCall(context, callId);
  return call === undefined || findBar(call, context.people, editor) === null;
}

/** The first call that an edit drops, changes or answers although it is not this person's to decide. */
export function findBarredEdit(
  { calls, people }: Context,
  event: Editor & Pick<Of<'transcript.edited'>, 'calls' | 'results'>,
): Call | undefined {
  const { results = [] } = event;
  return calls.find(call => {
    if (call.status === 'settled' || findBar(call, people, event) === null) return false;
    const kept = event.calls.find(({ callId }) => callId === call.callId);
    return kept?.digest !== call.digest || results.some(({ callId }) => callId === call.callId);
  });
}

/** To give a call back as it is only withdraws its approvals, which anyone may do. */
function isSameCall(call: Call, edited: QualifiedCall): boolean {
  return canonicalJson(qualifiedOf(call)) === canonicalJson(edited);
}

/** Whether the transcript may be edited: no batch is open, and calls that wait or are in doubt are kept. */
export function canEdit(
  context: Context,
  event: Editor & Pick<Of<'transcript.edited'>, 'calls' | 'results'>,
): boolean {
  if (context.batch > 0 || findBarredEdit(context, event) !== undefined) return false;
  if (findReviewBar(context, event) !== null) return false;
  const digests = new Map(event.calls.map(({ callId, digest }) => [callId, digest]));
  return context.calls.every(call => isFree(call) || digests.get(call.callId) === call.digest);
}

/** Whether the latest turn may be edited: it is complete, and none of its calls has started or waits elsewhere. */
export function canEditTurn(
  context: Context,
  event: Editor & Pick<Of<'turn.edited'>, 'turn' | 'calls'>,
): boolean {
  const { turn, calls } = event;
  const { lastTurn, failure, sentBack, batch } = context;
  if (lastTurn?.from === undefined || turn !== context.turn.number) return false;
  if (failure !== null || sentBack !== null || batch > 0) return false;
  if (lastTurn.final && calls.length > 0) return false;
  if (findBarredEdit(context, event) !== undefined || findReviewBar(context, event) !== null) return false;
  if (context.calls.length === 0) return lastTurn.calls === 0;
  return context.calls.every(call => isFree(call) && call.attempt === 0);
}

/** Whether the call has not started, has the digest that the edit refers to, and can run as edited. */
export function canEditCall(
  context: Context,
  event: Editor & Pick<Of<'call.edited'>, 'callId' | 'digest' | 'call'>,
): boolean {
  const call = findCall(context, event.callId);
  if (call === undefined || call.digest !== event.digest) return false;
  const isWithdrawal = isSameCall(call, event.call);
  if (!isWithdrawal && !mayChange(context, event.callId, event)) return false;
  const { callId, name, error } = event.call;
  if (callId !== call.callId || name !== call.name || error !== undefined) return false;
  return isFree(call) && call.status !== 'settled' && call.attempt === 0;
}

/** Whether people may take the call back: nothing runs it, and no outcome of it is awaited. */
function isFree({ status, attempt }: Call): boolean {
  return status === 'asking' ? attempt === 0 : FREE.has(status);
}

const FREE: ReadonlySet<CallStatus> = new Set(['ready', 'gated', 'settled']);
