import { findCall } from '../../machines/calls.ts';
import type { Call, CallStatus, Context } from '../../machines/context.ts';
import { describeBar, describeDuties, findBar } from '../../machines/duties.ts';
import { findBarredEdit, findDutyFault } from '../../machines/fold.ts';
import { findAnswerFault } from '../../machines/questions.ts';
import { findReviewBar, findReviewFault } from '../../machines/review.ts';
import { describeUnsettled, listUnsettled, STATUS_WORDS } from '../../machines/settled.ts';
import { hasEnded } from '../../machines/status.ts';
import { type ChartState, next } from '../../machines/step.ts';
import type { EngineErrorCode } from '../../protocol/error.ts';
import {
  type ChartEvent,
  type CommandEvent,
  callsOf,
  type Duties,
  type JournalEntry,
  type People,
} from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Stranding } from '../../protocol/run-view.ts';

/**
 * Why a run took no command: branch on `code`, show `message`. `by`: who decided first, if known; with `not-allowed`, the
 * groups that may decide, if there are such.
 */
export type Refusal = { accepted: false; code: EngineErrorCode; message: string; by?: string | string[] };

/** Why no process drives a run. `code`: the error with which an attempt in this process ends. */
export type Stranded = Stranding & { code: EngineErrorCode };

/**
 * The outcome of one command. `stranded`: the run has something to do, no process drives it, and this one cannot, because
 * its agent lacks the run's model. The command is in the journal and stays in force.
 */
export type CommandResult = { accepted: true; stranded?: Stranded } | Refusal;

/** The outcome of `run.submit`. `index`: the refused command, from 0; none of the commands was applied. */
export type SubmitResult = { accepted: true; stranded?: Stranded } | (Refusal & { index: number });

export type AppendOutcome =
  | { type: 'appended' }
  | { type: 'refused'; refusal: Refusal & { index: number } }
  /** Nothing was appended: this process started or stopped driving the run meanwhile. */
  | { type: 'driver-changed' };

export function withoutIndex(result: SubmitResult): CommandResult {
  if (result.accepted) return result;
  const { index: _, ...refusal } = result;
  return refusal;
}

export function refuse(code: EngineErrorCode, message: string, by?: string | string[]): Refusal {
  return { accepted: false, code, message, ...omitUndefined({ by }) };
}

const MOST_NAMED = 10;

/** Refuses what names no call or review of the run; the message has those that are open. */
export function refuseUnknown(what: string, context: Context): Refusal {
  const open = listUnsettled(context).map(describeUnsettled);
  if (context.review !== null) open.push(`the answer (${context.review.id}), under review`);
  const named =
    open.length > MOST_NAMED ? [...open.slice(0, MOST_NAMED), `and ${open.length - MOST_NAMED} more`] : open;
  const calls = open.length === 0 ? 'It has no open calls.' : `Its open calls: ${named.join('; ')}.`;
  return refuse('call-unknown', `Run ${context.runId} has no ${what}. ${calls}`);
}

/** Why the chart does not accept one of these inputs (the first such one); `null` if it accepts them all. */
export function findRefusal(
  state: ChartState,
  events: readonly CommandEvent[],
  journal: readonly JournalEntry[],
): (Refusal & { index: number }) | null {
  const known = [...journal];
  let before = state;
  for (const [index, event] of events.entries()) {
    if (event.type === 'run.noted') continue;
    const step = next(before, event);
    if (!step.handled) return { ...explainRefusal(before, event, known), index };
    before = step.state;
    known.push({ seq: known.length + 1, event });
  }
  return null;
}

function explainRefusal(state: ChartState, event: ChartEvent, journal: readonly JournalEntry[]): Refusal {
  const { runId } = state.context;
  if (event.type === 'review.decided') return explainReviewRefusal(state, event.reviewId, event, journal);
  if ('callId' in event) {
    const { callId } = event;
    return hasReview(journal, callId)
      ? explainReviewRefusal(state, callId, null, journal)
      : explainCallRefusal(state, event, journal);
  }
  if (hasEnded(state)) return refuseEnded(runId);
  switch (event.type) {
    case 'transcript.edited': {
      const barred = findBarredEdit(state.context, event);
      if (barred !== undefined) return refuseBarred(state.context, barred, event);
      const kept = refuseReviewEdit(state.context, event);
      if (kept !== null) return kept;
      return refuse(
        'refused',
        `Run ${runId} cannot be edited now. Pause it, wait until it rests between turns, and keep every call that was started.`,
      );
    }
    case 'turn.edited': {
      const barred = findBarredEdit(state.context, event);
      if (barred !== undefined) return refuseBarred(state.context, barred, event);
      const kept = refuseReviewEdit(state.context, event);
      if (kept !== null) return kept;
      return refuse(
        'refused',
        `Turn ${event.turn} of run ${runId} cannot be edited now. Pause the run before the calls of its latest turn start. The closing turn takes no calls.`,
      );
    }
    case 'sign-in.completed':
      return refuse(
        'refused',
        `Run ${runId} waits for no sign-in at "${event.server}". Look at what it waits for.`,
      );
    case 'pause.requested':
      return refuse('refused', `Run ${runId} is already paused. Unpause it to continue.`);
    case 'run.unpaused':
      return refuse('refused', `Run ${runId} is not paused. Look at what it waits for.`);
    default:
      return refuse(
        'refused',
        `Run ${runId} does not accept ${event.type} in its current state. Look at what it waits for.`,
      );
  }
}

/** An edit replaces the answer under review; only those who may decide it make one. */
function refuseReviewEdit(context: Context, editor: Decider): Refusal | null {
  const { review, people } = context;
  if (review === null || findReviewBar(context, editor) === null) return null;
  return refuseGate(`Review ${review.id}`, review, people, editor);
}

function refuseEnded(runId: string): Refusal {
  return refuse('run-ended', `Run ${runId} has ended. Start a new run with { continues: '${runId}' }.`);
}

/** Whether an event asked for a review of this id. */
function hasReview(journal: readonly JournalEntry[], id: string): boolean {
  return journal.some(({ event }) => event.type === 'review.requested' && event.reviewId === id);
}

/** Why a decision about an answer is refused. `event`: `null` for one about a call with the id of a review that is over. */
function explainReviewRefusal(
  state: ChartState,
  id: string,
  event: Extract<ChartEvent, { type: 'review.decided' }> | null,
  journal: readonly JournalEntry[],
): Refusal {
  const { context } = state;
  const { review, people, runId } = context;
  if (review?.id !== id || event === null || hasEnded(state)) {
    const decided = journal.flatMap(({ event: its }) =>
      its.type === 'review.decided' && its.reviewId === id && its.decision.type !== 'withdraw' ? [its] : [],
    );
    const last = decided.at(-1);
    if (last !== undefined) {
      const who = last.by === undefined ? '' : ` by ${last.by}`;
      const what = last.decision.type === 'reject' ? 'sent back' : 'approved';
      const when = new Date(last.at).toISOString();
      return refuse(
        'already-decided',
        `Review ${id} was already decided: the answer was ${what}${who} at ${when}.`,
        last.by,
      );
    }
    if (hasEnded(state)) return refuseEnded(runId);
    if (!hasReview(journal, id)) return refuseUnknown(`review ${JSON.stringify(id)}`, context);
    return refuse(
      'call-not-open',
      `Review ${id} is over: its answer expired or was replaced. Look at what the run waits for.`,
    );
  }
  if (review.digest !== event.digest)
    return refuse(
      'wrong-digest',
      `Review ${id} is not of the answer that was reviewed: its digest is ${review.digest}. Review it and decide again.`,
    );
  if (review.expiresAt !== undefined && event.at >= review.expiresAt)
    return refuse('expired', `Review ${id} has expired: it had to be decided earlier.`);
  const fault = findReviewFault(context, event);
  if (fault === 'repeated') {
    const { quorum, approvedBy = [] } = review;
    return refuse(
      'already-decided',
      `The answer of review ${id} was already approved by ${event.by}. It needs ${quorum} people; ${approvedBy.length} of them have approved it.`,
      event.by,
    );
  }
  return refuseGate(`Review ${id}`, review, people, event);
}

type CallEvent = Extract<ChartEvent, { callId: string }>;

function explainCallRefusal(state: ChartState, event: CallEvent, journal: readonly JournalEntry[]): Refusal {
  const { callId } = event;
  const open = findCall(state.context, callId);
  const barred = open === undefined ? null : explainBar(state.context, open, event);
  if (barred !== null) return barred;
  const decided = event.type === 'call.edited' ? undefined : findDecision(journal, event);
  if (decided !== undefined) {
    const { what, at, by } = decided;
    const who = by === undefined ? '' : ` by ${by}`;
    const when = new Date(at).toISOString();
    return refuse('already-decided', `Call ${callId} was already ${what}${who} at ${when}.`, by);
  }
  const call = open;
  const recorded = journal.flatMap(({ event }) => callsOf(event)).filter(found => found.callId === callId);
  if (call === undefined && recorded.length === 0)
    return refuseUnknown(`call ${JSON.stringify(callId)}`, state.context);
  if (call !== undefined && isAboutOther(event, call)) return refuseOther(call);
  // The decision came after the time, even if the timer had not fired yet.
  const hasExpired = recorded.some(({ expiresAt = Number.POSITIVE_INFINITY }) => expiresAt <= event.at);
  if (event.type === 'approval.decided' && hasExpired)
    return refuse('expired', `Call ${callId} has expired: it had to be decided earlier.`);
  if (hasEnded(state)) return refuseEnded(state.context.runId);
  if (call?.status === 'waiting' && call.childRunId !== undefined)
    return refuse(
      'call-not-open',
      `Call ${callId} waits for run ${call.childRunId} of its sub-agent, whose end gives its result. Decide what that run waits for, or cancel it.`,
    );
  const status = call?.status ?? 'settled';
  return refuse(
    'call-not-open',
    `Call ${callId} is ${STATUS_WORDS[status]}. ${ADVICE[status] ?? 'It needs no decision.'}`,
  );
}

/** Why an open call is not this person's to decide, resolve or change; `null` for every other reason. */
function explainBar(context: Context, call: Call, event: CallEvent): Refusal | null {
  if (event.type === 'approval.decided') {
    if (call.status !== 'gated' || call.digest !== event.digest) return null;
    if (call.expiresAt !== undefined && event.at >= call.expiresAt) return null;
    const fault = findDutyFault(context, call, event);
    if (fault === null) return null;
    const { callId, quorum, approvedBy = [] } = call;
    if (fault === 'repeated')
      return refuse(
        'already-decided',
        `Call ${callId} was already approved by ${event.by}. It needs ${quorum} people; ${approvedBy.length} of them have approved it.`,
        event.by,
      );
    if (fault === 'sticky')
      return refuse(
        'refused',
        `Call ${callId} needs ${describeDuties(call)}, so a decision about it cannot apply to later calls. Decide this call only.`,
      );
    if (fault === 'answer')
      return refuse(
        'refused',
        `Call ${callId} needs ${describeDuties(call)}, so one person cannot give its result. Approve or reject it.`,
      );
    return refuseBarred(context, call, event);
  }
  if (event.type === 'question.answered') return explainAnswer(context, call, event);
  if (event.type !== 'doubt.resolved' && event.type !== 'call.edited') return null;
  const isOpen =
    event.type === 'doubt.resolved'
      ? call.status === 'doubted'
      : call.status === 'gated' || call.status === 'ready';
  return isOpen && findBar(call, context.people, event) !== null ? refuseBarred(context, call, event) : null;
}

/** Why the first answer that does not count is refused; `null` if the questions are not open as they were answered. */
function explainAnswer(
  context: Context,
  call: Call,
  event: Extract<ChartEvent, { type: 'question.answered' }>,
): Refusal | null {
  if (call.status !== 'asking' || call.asked?.digest !== event.digest) return null;
  const { callId, asked, answered = {} } = call;
  for (const key of Object.keys(event.answers)) {
    const fault = findAnswerFault(context, call, event, key);
    if (fault === null) continue;
    const question = asked.questions.find(one => one.key === key);
    if (question !== undefined && fault !== 'expired')
      return refuseGate(`Question "${key}" of call ${callId}`, question, context.people, event);
    if (fault === 'expired') return refuse('expired', `Question "${key}" of call ${callId} has expired.`);
    if (Object.hasOwn(answered, key))
      return refuse('already-decided', `Question "${key}" of call ${callId} was already answered.`);
    const open = asked.questions.map(one => `"${one.key}"`).join(', ');
    return refuse('input-invalid', `Call ${callId} asks no question "${key}". It asks ${open}.`);
  }
  return null;
}

function refuseBarred({ people }: Context, call: Call, decider: Decider): Refusal {
  return refuseGate(`Call ${call.callId}`, call, people, decider);
}

type Decider = { by?: string; groups?: string[] };

function refuseGate(what: string, gate: Duties, people: People, decider: Decider): Refusal {
  const bar = findBar(gate, people, decider);
  const why = bar === null ? '' : describeBar(bar, decider.by ?? '');
  return refuse(
    'not-allowed',
    `${what} is not for ${decider.by ?? 'someone without a name'} to decide: ${why}. It needs ${describeDuties(gate)}.`,
    gate.by ?? [],
  );
}

/** Refuses a command about another call than this one, or about other questions. */
export function refuseOther({ callId, digest, asked }: Call): Refusal {
  return refuse(
    'wrong-digest',
    asked === undefined
      ? `Call ${callId} is not the one that was reviewed: its digest is ${digest}. Review it and decide again.`
      : `Call ${callId} asks something else now: its digest is ${asked.digest}. Read it and answer again.`,
  );
}

function isAboutOther(event: CallEvent, { status, digest, asked }: Call): boolean {
  if (event.type === 'call.edited')
    return digest !== event.digest && (status === 'gated' || status === 'ready');
  if (event.type === 'question.answered') return status === 'asking' && asked?.digest !== event.digest;
  return event.type === 'approval.decided' && status === 'gated' && digest !== event.digest;
}

const ADVICE: Partial<Record<CallStatus, string>> = {
  gated: 'Approve, reject or answer it.',
  asking: 'Answer what its tool asks, or decline to.',
  waiting: 'Answer it with its result.',
  doubted: 'Resolve the doubt.',
};

/** The latest decision of the same kind: approving a call and resolving a doubt about it are separate decisions. */
function findDecision(journal: readonly JournalEntry[], { type, callId }: CallEvent) {
  for (const { event } of journal.toReversed()) {
    if (!('callId' in event) || event.callId !== callId) continue;
    if (type === 'doubt.resolved') {
      if (event.type === 'doubt.resolved') return { ...event, what: 'resolved' };
    } else if (type === 'question.answered') {
      if (event.type === 'question.answered') return { ...event, what: 'answered' };
    } else if (event.type === 'result.received') return { ...event, what: 'answered' };
    else if (event.type === 'approval.decided') return { ...event, what: PAST_TENSE[event.decision.type] };
  }
  return undefined;
}

const PAST_TENSE = { approve: 'approved', reject: 'rejected', answer: 'answered' } as const;
