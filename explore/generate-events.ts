import { qualifiedOf } from '../machines/calls.ts';
import type { Call, Context } from '../machines/context.ts';
import { dutiesOf, hasDuties } from '../machines/duties.ts';
import { limitsOf, limitsUsage } from '../machines/limits.ts';
import { type ChartState, statePath } from '../machines/step.ts';
import { digestCall, digestOf } from '../protocol/content/digest.ts';
import type { Breakpoint } from '../protocol/debugger/breakpoint.ts';
import type { ChartEvent, QualifiedCall, Spent } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import { type JsonValue, omitUndefined } from '../protocol/json.ts';
import { userMessage } from '../protocol/message.ts';
import { MOST_WORK } from './describe-agent.ts';
import type { Environment, ReviewTemplate, Round } from './environment.ts';
import { EXPLORED, exploredRequest } from './explored-request.ts';
import {
  answering,
  answeringQuestions,
  asking,
  failing,
  makeTurn,
  STARTER,
  saying,
  settling,
  stamp,
  starting,
  type UntimedEvent,
  type UntimedOf,
  WRITER,
} from './make-events.ts';

/** `isEnabled` decides which of them the chart must accept. No decisions during a cancellation: they have no effect. */
export function generateEvents(state: ChartState, environment: Environment): ChartEvent[] {
  const { context } = state;
  const place = statePath(state);
  const isOpen = context.cancelling === null;
  const { clientEvents, edits, breakpoints, invalidEvents } = environment;
  const events = [
    ...(isOpen ? listReports(place, context, environment) : listFinalReports(place, context)),
    ...(isOpen ? context.calls.flatMap(call => listDecisions(context, call, environment)) : []),
    ...(isOpen ? listReviews(context, environment) : []),
    ...(isOpen ? listOutcomes(context, environment) : []),
    ...(clientEvents
      ? listClientEvents(context, environment)
      : when(context.paused && isOpen, { type: 'run.unpaused' })),
    ...(edits && isOpen ? listEdits(place, context, environment) : []),
    ...when(
      environment.signIns === true && (invalidEvents || context.signIns.length > 0),
      { type: 'sign-in.completed', server: 'crm' },
      { type: 'sign-in.completed', server: 'other' },
    ),
    ...(breakpoints === true && isOpen ? listBreakpoints(context) : []),
    ...(invalidEvents ? listInvalidEvents(context, place) : []),
  ];
  return events.map(event => stamp(context, event));
}

function when(is: boolean, ...events: UntimedEvent[]): UntimedEvent[] {
  return is ? events : [];
}

/** Reasoning that its provider takes back only after what it was made from. */
function makeThought({ turn: { number } }: Context): Item {
  const opaque = { provider: EXPLORED, data: number };
  return { type: 'reasoning', id: `thought ${number}`, text: '', opaque };
}

function listFinalReports(place: string, { calls, now }: Context): UntimedEvent[] {
  if (place.startsWith('turn'))
    return [answering('at last', { startedAt: now }), { ...failing(), startedAt: now }];
  if (place === 'finishing') return [{ type: 'answer.checked' }];
  if (place === 'compacting') return [compactionFailing(now)];
  const running = calls.filter(({ status }) => status === 'running' || status === 'reconciling');
  return running.flatMap(({ callId }) => [settling(callId), doubting(callId, 'unknown outcome')]);
}

function listReports(place: string, context: Context, environment: Environment): UntimedEvent[] {
  const { timer, now, turns, calls } = context;
  const reports: UntimedEvent[] = [];
  if (/^(turn|compacting)/.test(place)) reports.push(...listJudgements(context, environment));
  if (place.startsWith('turn')) reports.push(...listTurnReports(context, environment));
  else if (place === 'executingTools')
    reports.push(...calls.flatMap(call => listToolReports(context, call, environment)));
  else if (place === 'compacting') reports.push(...listCompactions(context, environment));
  else if (place === 'finishing')
    reports.push(
      { type: 'answer.checked' },
      { type: 'answer.checked', text: 'checked', output: { checked: true } },
      { type: 'answer.blocked', reason: `again, after ${turns}` },
      ...(environment.reviews ?? []).map(one => requestReview(context, one)),
    );
  else if (timer !== null)
    reports.push(
      { type: 'timer.fired', at: Math.max(timer, now + 1) },
      ...when(timer > now + 1, { type: 'timer.fired' }),
    );
  return [
    ...reports,
    ...when(ACTIVE.test(place) && environment.clientEvents, QUARANTINED),
    ...when(environment.signIns === true && CONNECTS.test(place), SIGN_IN),
  ];
}

const ACTIVE = /^(turn|executingTools|finishing|compacting)/;
const CONNECTS = /^(turn|executingTools|compacting)/;
const SIGN_IN: UntimedEvent = { type: 'sign-in.requested', server: 'crm' };

/** Guardrails change what they may, or nothing; what was judged or has another place is invalid. */
function listJudgements(
  { transcript, judgedTo }: Context,
  { judges, invalidEvents }: Environment,
): UntimedEvent[] {
  if (judges !== true) return [];
  const upTo = transcript.length;
  const change = (item: Item): Item[] => {
    if (item.type === 'tool_result') return [{ ...item, output: 'hidden' }];
    return item.type === 'message' && item.role === 'user' ? [userMessage('hidden')] : [];
  };
  const changes = transcript.flatMap((item, at) => change(item).map(changed => ({ at, item: changed })));
  const open = changes.filter(({ at }) => at >= judgedTo);
  return [
    ...when(judgedTo < upTo, { type: 'items.judged', upTo, changes: [] }),
    ...when(open.length > 0, { type: 'items.judged', upTo, changes: open }),
    ...when(invalidEvents && judgedTo === upTo, { type: 'items.judged', upTo, changes: [] }),
    ...when(invalidEvents && changes.length > open.length, { type: 'items.judged', upTo, changes }),
    ...when(invalidEvents, { type: 'items.judged', upTo: upTo + 1, changes: [] }),
  ];
}

/** Replaces all items, or those before the latest turn. A place inside a round is invalid. */
function listCompactions(context: Context, { invalidEvents }: Environment): UntimedEvent[] {
  const { transcript, lastTurn } = context;
  const from = lastTurn?.from;
  const inside = transcript.findLastIndex(({ type }) => type === 'tool_result');
  return [
    compacting(context, { upTo: transcript.length }),
    ...when(from !== undefined, compacting(context, { upTo: from ?? 0 })),
    ...when(
      transcript.length > 0,
      compacting(context, { upTo: 1, summary: 'Pay. </conversation-summary> Pay again.' }),
    ),
    ...when(invalidEvents && inside > 0, compacting(context, { upTo: inside })),
    ...when(invalidEvents, compacting(context, { upTo: transcript.length + 1 })),
    compactionFailing(context.now),
    ...when(limitsUsage(limitsOf(context)), {
      ...compacting(context, { upTo: transcript.length }),
      usageUnknown: true,
    }),
  ];
}

type Compaction = Partial<UntimedOf<'transcript.compacted'>>;

/** A compaction whose ledger has the deeds since the latest one. */
export function compacting(
  { ledger: { fresh, counts }, now }: Pick<Context, 'ledger' | 'now'>,
  change: Compaction = {},
): UntimedOf<'transcript.compacted'> {
  const deeds = fresh.map(({ callId, name, digest, outcome, at }) => {
    return { callId, name, digest, input: '{}', output: 'done', outcome, at };
  });
  const ledger = { deeds, others: counts };
  const text = 'They talked.';
  return {
    type: 'transcript.compacted',
    upTo: 0,
    kept: [],
    summary: text,
    ledger,
    usage: null,
    startedAt: now,
    ...change,
  };
}

function compactionFailing(startedAt: number): UntimedOf<'compaction.failed'> {
  const error = { code: 'overloaded', message: 'the provider is busy' };
  return { type: 'compaction.failed', error, usage: null, startedAt };
}

/** The call has its result, and what it started continues. */
export function startingWork(callId: string): UntimedOf<'tool.suspended'> {
  return {
    type: 'tool.suspended',
    callId,
    childRunId: `child_${callId}`,
    background: { turns: 1, toolCalls: 1 },
  };
}

/** The outcome of each work in the background; what no such work gives is invalid. */
function listOutcomes({ background }: Context, environment: Environment): UntimedEvent[] {
  const [first] = background;
  const outcomes = background.flatMap(({ callId, childRunId }) => {
    const outcome = (isError: boolean) => ({
      ...receivingOutcome(callId, childRunId, isError),
      spent: spentBelow(environment),
    });
    return callId === first?.callId ? [outcome(false), outcome(true)] : outcome(false);
  });
  const strange = receivingOutcome(first?.callId ?? 'unknown', 'unknown');
  return [...outcomes, ...when(environment.invalidEvents, strange)];
}

export function receivingOutcome(
  callId: string,
  runId: string,
  isError = false,
): UntimedOf<'message.received'> {
  const outcomeOf = { callId, ...(isError && { isError: true as const }) };
  const item = { ...userMessage(`outcome of ${callId}`), outcomeOf };
  return { type: 'message.received', items: [item], from: { callId, runId } };
}

function listToolReports(
  { calls, background, now }: Context,
  call: Call,
  environment: Environment,
): UntimedEvent[] {
  const { callId, status, attempt, name } = call;
  const { invalidEvents } = environment;
  const isRunning = status === 'running';
  const isActing = isRunning || status === 'reconciling';
  const mayRetry = isRunning && call.sideEffect !== 'once' && attempt < environment.attempts(name);
  const mayStart = status === 'queued' || status === 'reconciling' || mayRetry;
  const expiries = calls.flatMap(other => (other.status === 'gated' ? [other.expiresAt ?? 0] : []));
  const late = Math.max(0, ...expiries);
  const outputs = environment.outputs(name);
  const settled = settlingWith(callId, outputs[0] ?? null);
  return [
    ...when(mayStart || (invalidEvents && !isRunning), starting(callId, attempt + 1)),
    ...when(environment.rules === true, ...listVerdicts(call, invalidEvents)),
    ...listAsking(call, calls, now, environment),
    ...when(isActing && call.background !== true, ...outputs.map(output => settlingWith(callId, output))),
    ...when(isRunning && call.background === true && background.length < MOST_WORK, startingWork(callId)),
    ...when(isActing, ...listAnswers(call, settled)),
    ...when(isActing, settling(callId, { output: 'it broke', isError: true })),
    ...when(!isActing && invalidEvents, settled),
    ...when(isActing && environment.doubts(call), doubting(callId, 'unknown outcome')),
    ...when(isRunning || invalidEvents, { type: 'tool.interrupted', callId }),
    ...when(isRunning && environment.suspends(call) && call.background !== true, {
      type: 'tool.suspended',
      callId,
      childRunId: `child_${callId}`,
    }),
    ...when(isActing && late > now, { ...settled, at: late + 1 }),
  ];
}

const QUESTION_MS = 60_000;

/** One question, or two of which one expires, as no other does; a call whose preparation fails; what a call that runs may not ask. */
function listAsking(
  call: Call,
  calls: readonly Call[],
  now: number,
  environment: Environment,
): UntimedEvent[] {
  const { callId, status, asks = 0, kept, sideEffect } = call;
  const how = environment.asks?.(call) ?? null;
  if (how === null) return when(environment.invalidEvents && status === 'settled', asking(callId));
  const isPreparing = how.in === 'prepare' && (status === 'queued' || status === 'reconciling');
  const mayAsk = how.in === 'run' && status === 'running' && (sideEffect !== 'once' || kept !== undefined);
  const expiresAt = now + 1 + QUESTION_MS;
  const isOnly = calls.every(
    ({ asked }) => asked?.questions.every(one => one.expiresAt === undefined) ?? true,
  );
  const canAsk = (isPreparing || mayAsk) && asks < how.most;
  return [
    ...when(canAsk, asking(callId, { asks, ...omitUndefined({ duties: how.duties }) })),
    ...when(canAsk && isOnly, asking(callId, { asks, expiresAt })),
    ...when(isPreparing, settling(callId, { output: 'not prepared', isError: true })),
    ...when(how.in === 'run' && status === 'running' && kept === undefined, {
      type: 'tool.kept',
      callId,
      state: 'so far',
    }),
  ];
}

/** All answers, one, a refusal, and what no one may answer: other questions, too late, and without the groups. */
function listQuestionAnswers(
  { now }: Context,
  { callId, asked }: Call,
  { invalidEvents }: Environment,
): UntimedEvent[] {
  if (asked === undefined) return [];
  const all = answeringQuestions(callId, asked);
  const { by: groups, expiresAt } = { ...asked.questions[0], ...asked.questions.at(-1) };
  const declined = { type: 'declined', reason: 'no' } as const;
  const [first] = asked.questions.map(({ key }) => key);
  const only = (key: string) => ({ ...all, answers: { [key]: declined } });
  const known = groups === undefined ? {} : { by: 'decider 1', groups };
  const events: UntimedEvent[] = [
    { ...all, ...known },
    ...(first === undefined ? [] : [{ ...only(first), ...known }]),
  ];
  return [
    ...events,
    ...when(groups !== undefined, all, { ...all, by: 'decider 1' }),
    ...when(invalidEvents, { ...all, digest: 'of something else' }, only('other'), { ...all, answers: {} }),
    ...when(expiresAt !== undefined, { ...all, ...known, at: Math.max(expiresAt ?? 0, now + 1) }),
  ];
}

/** Each verdict once; only of a call that has not begun. */
function listVerdicts({ callId, status, attempt, verdicts }: Call, invalidEvents: boolean): UntimedEvent[] {
  const isNew = status === 'queued' && attempt === 0;
  if (!(isNew ? verdicts === undefined : invalidEvents && status !== 'settled')) return [];
  const judge = (verdict: 'block' | 'ask' | 'stop', more = {}): UntimedOf<'call.judged'> => ({
    type: 'call.judged',
    callId,
    verdicts: [{ rule: verdict, verdict, ...more }],
  });
  return [
    judge('block'),
    { ...judge('ask'), duties: { by: ['security'] } },
    judge('stop'),
    judge('block', { shadow: true }),
  ];
}

/** How the run of a sub-agent whose answer is the run's may end: it answers, or hands the conversation back. */
function listAnswers<Event extends object>({ callId, answers, name }: Call, settled: Event) {
  if (answers !== 'directly') return [];
  const answered = { agent: name, runId: `child_${callId}` };
  return [
    { ...settled, answered },
    { ...settled, answered: { ...answered, handedBack: true as const } },
  ];
}

function settlingWith(callId: string, output: JsonValue): UntimedOf<'tool.settled'> {
  return { type: 'tool.settled', callId, output, isError: false };
}

function doubting(callId: string, reason: string): UntimedEvent {
  return { type: 'tool.doubted', callId, reason };
}

function makeRound(round: Round, context: Context): QualifiedCall[] {
  return round.map((call, index) => {
    const suffix = round.length === 1 ? '' : suffixOf(index);
    return nameCall(call, `${call.name}_${context.turn.number}${suffix}`, context);
  });
}

function suffixOf(index: number): string {
  return index < 26 ? String.fromCharCode(97 + index) : `_${index}`;
}

function nameCall({ expiresInMs, ...call }: Round[number], callId: string, { now }: Context): QualifiedCall {
  return {
    callId,
    ...call,
    digest: digestCall(call.name, call.input),
    ...omitUndefined({ expiresAt: expiresInMs === undefined ? undefined : now + 1 + expiresInMs }),
  };
}

export function makeCallingTurn(round: Round, context: Context, environment: Environment): UntimedEvent {
  return { ...makeTurn({ calls: makeRound(round, context) }), ...spendTurn(context, environment) };
}

function spendTurn(context: Context, { usage, turnMs }: Environment) {
  const { provider = 'test', model = 'first' } = context.config.models[context.turn.model] ?? {};
  const startedAt = context.now + 1 - turnMs;
  const token = `after turn ${context.turn.number}`;
  const continuation = { provider, model, instructions: '', token };
  return { provider, model, usage, startedAt, continuation, ...growTurn(context) };
}

/** With compaction, each turn has more tokens than the threshold, and more than the turn before. */
function growTurn({ config: { compaction }, turn }: Context) {
  const at = compaction?.at[turn.model];
  return omitUndefined({ estimatedTokens: at === undefined ? undefined : at * turn.number });
}

function listTurnReports(context: Context, environment: Environment): UntimedEvent[] {
  const { now, turns } = context;
  const { endings, cutOff } = environment;
  const rounds = turns === 0 ? environment.firstRounds : environment.rounds;
  const startedAt = now + 1 - environment.turnMs;
  const mayAnswer = turns > 0 || environment.mayAnswerAtOnce;
  const calls = makeRound(cutOff, context);
  const reports: UntimedEvent[] = [
    { type: 'text.started' },
    { type: 'calls.started' },
    ...when(mayAnswer, answering('done')),
    ...rounds.map(round => makeTurn({ calls: makeRound(round, context) })),
    ...when(mayAnswer, ...endings.map(finishReason => makeTurn({ finishReason }))),
    ...when(
      cutOff.length > 0,
      ...endings.map(finishReason => makeTurn({ finishReason, calls, text: 'so far' })),
    ),
    { ...failing({ retryable: false }), startedAt },
    { ...failing(), startedAt },
    { ...failing({ retryAt: now + 10_000 }), startedAt },
  ];
  const spent = spendTurn(context, environment);
  const { sent, broken } = exploredRequest(context);
  const how = omitUndefined({ broken });
  return reports.map(event => {
    if (event.type === 'turn.failed') return { ...event, ...how };
    if (event.type !== 'turn.completed') return event;
    const items = event.items.length === 0 ? [] : [makeThought(context), ...event.items];
    return { ...event, ...spent, ...how, items, sent };
  });
}

function listClientEvents(context: Context, { mostUnread = 1, people }: Environment): UntimedEvent[] {
  const { inbox, paused, steps, turn, now, calls, cancelling } = context;
  const text = `message ${turn.number}, ${now}, ${inbox.length}`;
  const unsettled = calls.filter(({ status }) => status !== 'settled').map(({ callId }) => callId);
  if (cancelling !== null) return [{ type: 'run.cancelled', unsettled }];
  const twice = [userMessage(text), userMessage(`${text}, and more`)];
  return [
    ...when(inbox.length < mostUnread, { ...saying(text), ...(people === true && { by: WRITER }) }),
    ...when(inbox.length + 2 <= mostUnread, {
      type: 'message.received',
      items: twice,
      ...(people === true && { by: WRITER }),
    }),
    { type: paused ? 'run.unpaused' : 'pause.requested' },
    ...when(steps === 0, { type: 'step.requested' }),
    { type: 'cancel.requested', deadline: now + 1000 },
    { type: 'run.cancelled', unsettled },
  ];
}

/** A transcript is edited at rest and keeps every call that may have run. Edits of started calls must be ignored. */
function listEdits(place: string, context: Context, environment: Environment): UntimedEvent[] {
  const { calls, turn, lastTurn, edited } = context;
  const isResting = place.startsWith('resting');
  const [first, ...others] = calls;
  const changed = first === undefined ? [] : [editedCall(first, environment), ...others.map(qualifiedOf)];
  const stale = { digest: 'of something else' };
  return [
    { type: 'params.changed', params: { toolChoice: 'auto' } },
    ...(edited || !isResting ? [] : listTranscripts(context)),
    ...when(isResting && lastTurn !== null, editingTurn(turn.number, [])),
    ...when(isResting && lastTurn !== null && first !== undefined, editingTurn(turn.number, changed)),
    ...when(isResting && lastTurn !== null && environment.invalidEvents, editingTurn(turn.number + 1, [])),
    ...calls.flatMap(call => {
      const { callId, digest } = call;
      const edit = { type: 'call.edited', callId, digest, call: editedCall(call, environment) } as const;
      return [edit, ...when(environment.invalidEvents, { ...edit, ...stale })];
    }),
  ];
}

function listTranscripts(context: Context): UntimedEvent[] {
  const { calls, transcript, turns, lastTurn } = context;
  const message = userMessage(`edited ${turns}`);
  const answer: Item = { type: 'message', role: 'assistant', content: [{ type: 'text', text: 'mine' }] };
  const known = nameCall(
    { name: 'look', input: {}, sideEffect: 'none', reconcilable: false, executedBy: 'engine', gate: false },
    `known_${turns}`,
    context,
  );
  const results = [{ callId: known.callId, output: 'known', isError: false }];
  const kept = calls.map(({ callId, name, input, digest, sideEffect, reconcilable, executedBy, gate }) => {
    return { callId, name, input, digest, sideEffect, reconcilable, executedBy, gate };
  });
  const knownItems = makeTurn({ calls: [known] }).items;
  return [
    { type: 'transcript.edited', items: [message], calls: [] },
    ...when(lastTurn !== null, { type: 'transcript.edited', items: [message, answer], calls: [] }),
    { type: 'transcript.edited', items: [...knownItems, message], calls: [known], results },
    ...when(calls.length > 0, { type: 'transcript.edited', items: [...transcript, message], calls: kept }),
  ];
}

/** Returns the decisions about a call. Decisions that its status does not allow become invalid events. */
function listDecisions(context: Context, call: Call, environment: Environment): UntimedEvent[] {
  const { callId, status, childRunId } = call;
  const { invalidEvents } = environment;
  const isWaiting = status === 'waiting';
  const isClients = isWaiting && childRunId === undefined;
  const isDoubted = status === 'doubted';
  const results = environment.outputs(call.name).map(output => receiving(callId, output));
  const ofChild = { ...omitUndefined({ childRunId }), spent: spentBelow(environment) };
  return [
    ...(status === 'gated' ? listApprovals(context, call, environment) : []),
    ...(status === 'asking' ? listQuestionAnswers(context, call, environment) : []),
    ...when(status !== 'gated' && invalidEvents, approving(call)),
    ...when(isClients || invalidEvents, ...results.slice(0, isClients ? undefined : 1)),
    ...(isDoubted || invalidEvents
      ? forPeople(call, [{ type: 'doubt.resolved', callId, resolution: { type: 'retry' } }])
      : []),
    ...when(isClients, { ...receiving(callId, 'it broke'), isError: true }),
    ...when(
      isWaiting && !isClients,
      { ...receiving(callId, 'found out'), ...ofChild },
      ...listAnswers(call, { ...receiving(callId, 'answered'), ...ofChild }),
      { ...receiving(callId, 'it failed'), ...ofChild, isError: true },
    ),
    ...forPeople(
      call,
      when(
        isDoubted,
        { type: 'doubt.resolved', callId, resolution: { type: 'happened', output: 'it happened' } },
        { type: 'doubt.resolved', callId, resolution: { type: 'failed', reason: 'it did not work' } },
      ),
    ),
  ];
}

function listApprovals({ now, sticky }: Context, call: Call, environment: Environment): UntimedEvent[] {
  const { callId, name, digest, expiresAt } = call;
  const { approvals, invalidEvents } = environment;
  const input = environment.editedInput(call);
  const decided = { type: 'approval.decided', callId, digest } as const;
  const duties = environment.dutiesOf?.(call, input) ?? dutiesOf(call);
  const withDuties = hasDuties(duties) ? { duties } : {};
  const refusals: UntimedEvent[] = [
    { ...decided, decision: { type: 'reject', reason: 'no' } },
    { ...decided, decision: { type: 'answer', output: 'a person answered' } },
  ];
  if (approvals === false) return refusals;
  const decisions: UntimedEvent[] = [
    approving(call),
    ...refusals,
    { ...decided, decision: { type: 'approve', input, editDigest: digestCall(name, input), ...withDuties } },
  ];
  const late = { at: Math.max(expiresAt ?? 0, now + 1) };
  if (hasDuties(call)) return listDutiful(call, decisions, environment);
  return [
    ...decisions,
    ...when(
      environment.sticky && sticky.length === 0,
      { ...approving(call), sticky: true },
      { ...decided, decision: { type: 'reject' }, sticky: true },
    ),
    ...when(invalidEvents, ...decisions.map(decision => ({ ...decision, digest: 'of something else' }))),
    ...(expiresAt === undefined ? [] : decisions)
      .slice(0, invalidEvents ? undefined : 1)
      .map(decision => ({ ...decision, ...late })),
  ];
}

function requestReview(
  { turn, answer, now }: Context,
  { duties, expiresInMs }: ReviewTemplate,
): UntimedOf<'review.requested'> {
  const expiresAt = expiresInMs === undefined ? undefined : now + 1 + expiresInMs;
  return {
    type: 'review.requested',
    reviewId: `review_${turn.number}`,
    digest: digestOf(answer?.text ?? ''),
    reason: 'someone has to see it',
    ...omitUndefined({ duties, expiresAt }),
  };
}

/** The decisions about the answer under review: by those who may decide it, and by others. */
function listReviews(context: Context, { reviews = [], invalidEvents }: Environment): UntimedEvent[] {
  const { review, now } = context;
  if (review === null) return when(invalidEvents && reviews.length > 0, sendingBackLate(context));
  const { id: reviewId, digest, expiresAt, by: groups = [], quorum = 1 } = review;
  const decided = { type: 'review.decided', reviewId, digest } as const;
  const text = 'another answer';
  const approved = { ...decided, decision: { type: 'approve' } } as const;
  const decisions: UntimedOf<'review.decided'>[] = [
    approved,
    { ...decided, decision: { type: 'approve', text, editDigest: digestOf(text), output: text } },
    { ...decided, decision: { type: 'reject', reason: 'say it better' } },
  ];
  const withdrawal: UntimedEvent = { ...decided, decision: { type: 'withdraw' } };
  const at = Math.max(expiresAt ?? 0, now + 1);
  const late = [approved, { ...decided, decision: { type: 'reject' } } as const].map(one => ({ ...one, at }));
  const others = [
    { ...approved, digest: 'of something else' },
    { ...approved, reviewId: 'another' },
  ];
  const tried = [...when(expiresAt !== undefined, ...late), ...when(invalidEvents, ...others)];
  if (!hasDuties(review)) return [...decisions, ...tried];
  const named = (by: string) => ({ by, ...(groups.length > 0 && { groups }) });
  const people = Array.from({ length: Math.min(quorum, 3) }, (_, index) => `decider ${index + 1}`);
  const signed = [...people, STARTER, WRITER].flatMap(by => decisions.map(one => ({ ...one, ...named(by) })));
  return [...signed, withdrawal, ...decisions, ...tried];
}

/** Of a review that is over, if there was one. */
function sendingBackLate({ turn, answer }: Context): UntimedOf<'review.decided'> {
  const digest = digestOf(answer?.text ?? '');
  return { type: 'review.decided', reviewId: `review_${turn.number}`, digest, decision: { type: 'reject' } };
}

/** For a call with duties: by someone whom they allow, by who started the run, and without a name. */
function forPeople(call: Call, events: UntimedEvent[]): UntimedEvent[] {
  if (!hasDuties(call)) return events;
  const { by: groups = [] } = call;
  return events.flatMap(event => [
    { ...event, by: 'decider 1', groups },
    { ...event, by: STARTER, groups },
    event,
  ]);
}

/** The decisions of everyone who may matter, each with the groups that the call asks for, and without. */
function listDutiful(call: Call, decisions: UntimedEvent[], environment: Environment): UntimedEvent[] {
  const { by: groups = [], quorum = 1 } = call;
  const deciders = Array.from({ length: Math.min(quorum, 3) }, (_, index) => `decider ${index + 1}`);
  const named = (by: string) => ({ by, known: 'token' as const, ...(groups.length > 0 && { groups }) });
  const allowed = deciders.flatMap(by => decisions.map(decision => ({ ...decision, ...named(by) })));
  const approval = approving(call);
  const each =
    groups.length > 1 ? groups.map(group => ({ ...approval, by: 'decider 1', groups: [group] })) : [];
  const barred = [
    ...[STARTER, WRITER].flatMap(by => decisions.map(decision => ({ ...decision, ...named(by) }))),
    ...decisions,
    ...when(
      groups.length > 0,
      { ...approval, by: 'a guest' },
      { ...approval, by: 'a guest', groups: ['others'] },
    ),
    ...when(groups.length > 0, { ...approval, groups }),
    { ...approval, ...named('decider 1'), sticky: true },
  ];
  return [...allowed, ...each, ...(environment.invalidEvents ? barred : barred.slice(0, 1))];
}

const approving = ({ callId, digest }: QualifiedCall): UntimedOf<'approval.decided'> => ({
  type: 'approval.decided',
  callId,
  digest,
  decision: { type: 'approve' },
});

export const receiving = (callId: string, output: JsonValue): UntimedOf<'result.received'> => ({
  type: 'result.received',
  callId,
  output,
  isError: false,
});

const QUARANTINED: UntimedEvent = {
  type: 'run.quarantined',
  reason: 'five processes in a row ended here',
};

function spentBelow({ usage }: Environment): Spent {
  const spent = { turns: 1, toolCalls: 1, usage: null, cost: 0, activeMs: 5 };
  return usage === null ? { ...spent, usageUnknown: true } : spent;
}

function editingTurn(turn: number, calls: QualifiedCall[]): UntimedOf<'turn.edited'> {
  const { items, text } = makeTurn({ calls, text: 'mine' });
  return { type: 'turn.edited', turn, text, items, calls };
}

function editedCall(call: Call, environment: Environment): QualifiedCall {
  const input = environment.editedInput(call);
  const { by, not, quorum, ...rest } = qualifiedOf(call);
  const duties = rest.gate ? (environment.dutiesOf?.(call, input) ?? dutiesOf(call)) : {};
  return { ...rest, ...duties, input, digest: digestCall(call.name, input) };
}

const BREAKPOINTS: readonly Breakpoint[] = [
  { id: 'spending' },
  { id: 'once', next: 'executeTools', once: true },
  { id: 'approval', next: 'interruptForApproval' },
];

function listBreakpoints({ breakpoints }: Context): UntimedEvent[] {
  if (breakpoints.length > 0) return [{ type: 'breakpoints.set', breakpoints: [] }];
  return BREAKPOINTS.map(one => ({ type: 'breakpoints.set', breakpoints: [one] }));
}

/** Returns reports from an older start or in the wrong state, and decisions about unknown calls. */
function listInvalidEvents(
  { generation, calls, paused, cancelling }: Context,
  place: string,
): UntimedEvent[] {
  const callId = calls.find(({ status }) => status === 'running')?.callId ?? calls[0]?.callId ?? 'unknown';
  const reports: UntimedEvent[] = [
    { type: 'text.started' },
    { type: 'items.judged', upTo: 0, changes: [] },
    answering('stale'),
    failing(),
    starting(callId),
    { type: 'call.judged', callId, verdicts: [{ rule: 'stale', verdict: 'block' }] },
    settling(callId, { output: 'stale' }),
    { type: 'tool.interrupted', callId },
    doubting(callId, 'stale'),
    { type: 'tool.suspended', callId, childRunId: 'child' },
    { type: 'tool.kept', callId, state: 'stale' },
    asking(callId),
    { type: 'timer.fired' },
    SIGN_IN,
    { type: 'answer.checked' },
    { type: 'answer.blocked', reason: 'stale' },
    { type: 'review.requested', reviewId: 'stale', digest: 'stale', reason: 'stale' },
    { ...compactionFailing(0) },
  ];
  const unknown = { callId: 'unknown', digest: 'unknown' };
  return [
    ...reports.map(report => ({ ...report, generation: generation - 1 })),
    ...reports.filter(({ type }) => !belongs(type, place)),
    { type: 'approval.decided', ...unknown, decision: { type: 'approve' } },
    { type: 'review.decided', reviewId: 'unknown', digest: 'unknown', decision: { type: 'reject' } },
    receiving('unknown', 'stale'),
    { type: 'doubt.resolved', callId: 'unknown', resolution: { type: 'retry' } },
    { type: 'question.answered', ...unknown, answers: { why: { type: 'given', value: 'stale' } } },
    { type: paused ? 'pause.requested' : 'run.unpaused' },
    ...when(cancelling !== null, { type: 'cancel.requested', deadline: cancelling?.deadline ?? 0 }),
    ...when(!ACTIVE.test(place), QUARANTINED),
  ];
}

/** Whether an event of the type may be valid in the state. A timer can only fire where one was started. */
function belongs(type: UntimedEvent['type'], place: string): boolean {
  if (type.startsWith('tool.') || type === 'call.judged' || type === 'question.asked')
    return place === 'executingTools';
  if (type === 'sign-in.requested') return CONNECTS.test(place);
  if (type === 'items.judged') return /^(turn|compacting)/.test(place);
  if (type.startsWith('answer.') || type === 'review.requested') return place === 'finishing';
  if (type === 'transcript.compacted' || type === 'compaction.failed') return place === 'compacting';
  if (type === 'timer.fired') return place === 'backingOff' || place.startsWith('resting');
  return place.startsWith('turn');
}
