import type { Call, Context } from '../machines/context.ts';
import { type ChartState, statePath } from '../machines/step.ts';
import { digestCall } from '../protocol/content/digest.ts';
import type { Breakpoint } from '../protocol/debugger/breakpoint.ts';
import type { ChartEvent, QualifiedCall } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import { type JsonValue, omitUndefined } from '../protocol/json.ts';
import { userMessage } from '../protocol/message.ts';
import type { Environment, Round } from './environment.ts';
import {
  answering,
  failing,
  makeTurn,
  saying,
  settling,
  stamp,
  starting,
  type UntimedEvent,
  type UntimedOf,
} from './make-events.ts';

/**
 * Returns the events to offer in a state; `isEnabled` decides which of them the chart must accept. Decisions are
 * left out while the run is being cancelled: they have no effect.
 */
export function generateEvents(state: ChartState, environment: Environment): ChartEvent[] {
  const { context } = state;
  const place = statePath(state);
  const isOpen = context.cancelling === null;
  const events = [
    ...(isOpen ? listReports(place, context, environment) : listFinalReports(place, context)),
    ...(isOpen ? context.calls.flatMap(call => listDecisions(context, call, environment)) : []),
    ...(environment.clientEvents ? listClientEvents(context, environment) : listContinuation(context)),
    ...(environment.edits && isOpen ? listEdits(place, context) : []),
    ...(environment.edits && isOpen ? listTurnEdits(place, context, environment) : []),
    ...(environment.edits && isOpen ? listCallEdits(context, environment) : []),
    ...(environment.breakpoints === true && isOpen ? listBreakpoints(context) : []),
    ...(environment.invalidEvents ? listInvalidEvents(context, place) : []),
  ];
  return events.map(event => stamp(context, event));
}

/** The event that continues a run which was paused before, in explorations in which no one pauses it. */
function listContinuation({ paused, cancelling }: Context): UntimedEvent[] {
  return paused && cancelling === null ? [{ type: 'run.unpaused' }] : [];
}

/** The outcomes of what was running when the run was cancelled. */
function listFinalReports(place: string, { calls, now }: Context): UntimedEvent[] {
  if (place.startsWith('turn'))
    return [answering('at last', { startedAt: now }), { ...failing(), startedAt: now }];
  if (place === 'finishing') return [{ type: 'finishers.completed' }];
  const running = calls.filter(({ status }) => status === 'running' || status === 'reconciling');
  return running.flatMap(({ callId }): UntimedEvent[] => [
    settling(callId),
    { type: 'tool.doubted', callId, reason: 'unknown outcome' },
  ]);
}

const quarantined = ({ clientEvents }: Environment): UntimedEvent[] => (clientEvents ? [QUARANTINED] : []);

function listReports(place: string, context: Context, environment: Environment): UntimedEvent[] {
  switch (place) {
    case 'turn.planning':
    case 'turn.finalStreaming':
      return [...listTurnReports(context, environment), ...quarantined(environment)];
    case 'executingTools':
      return [
        ...context.calls.flatMap(call => listToolReports(context, call, environment)),
        ...quarantined(environment),
      ];
    case 'finishing':
      return [
        { type: 'finishers.completed' },
        { type: 'finishers.completed', text: 'checked', output: { checked: true } },
        { type: 'finishers.rejected', feedback: `again, after ${context.turns}` },
        ...quarantined(environment),
      ];
    default:
      if (context.timer === null) return [];
      return [
        { type: 'timer.fired', at: Math.max(context.timer, context.now + 1) },
        ...(context.timer > context.now + 1 ? [{ type: 'timer.fired' } as const] : []),
      ];
  }
}

function listToolReports({ calls, now }: Context, call: Call, environment: Environment): UntimedEvent[] {
  const { callId, status, attempt, name } = call;
  const isRunning = status === 'running';
  const isActing = isRunning || status === 'reconciling';
  const mayRetry = isRunning && call.sideEffect !== 'once' && attempt < environment.attempts(name);
  const expiries = calls.flatMap(other => (other.status === 'gated' ? [other.expiresAt ?? 0] : []));
  const late = Math.max(0, ...expiries);
  const [output = null] = environment.outputs(name);
  return [
    ...(status === 'queued' ||
    status === 'reconciling' ||
    mayRetry ||
    (environment.invalidEvents && !isRunning)
      ? [starting(callId, attempt + 1)]
      : []),
    ...(isActing ? environment.outputs(name).map(value => settlingWith(callId, value)) : []),
    ...(isActing ? [settling(callId, { output: 'it broke', isError: true })] : []),
    ...(!isActing && environment.invalidEvents ? [settlingWith(callId, output)] : []),
    ...(isActing && environment.doubts(call)
      ? [{ type: 'tool.doubted', callId, reason: 'unknown outcome' } as const]
      : []),
    ...(isRunning || environment.invalidEvents ? [{ type: 'tool.interrupted', callId } as const] : []),
    ...(isRunning && environment.suspends(call)
      ? [{ type: 'tool.suspended', callId, childRunId: `child_${callId}` } as const]
      : []),
    ...(isActing && late > now ? [{ ...settlingWith(callId, output), at: late + 1 }] : []),
  ];
}

const settlingWith = (callId: string, output: JsonValue): UntimedOf<'tool.settled'> => ({
  type: 'tool.settled',
  callId,
  output,
  isError: false,
});

/** Returns the calls of a round as the current turn makes them. */
function makeRound(round: Round, context: Context): QualifiedCall[] {
  return round.map((call, index) => {
    const suffix = round.length === 1 ? '' : suffixOf(index);
    return nameCall(call, `${call.name}_${context.turn.number}${suffix}`, context);
  });
}

function suffixOf(index: number): string {
  return index < 26 ? String.fromCharCode(97 + index) : `_${index}`;
}

/** Returns a call with its id, its digest and its expiry. */
function nameCall({ expiresInMs, ...call }: Round[number], callId: string, { now }: Context): QualifiedCall {
  return {
    callId,
    ...call,
    digest: digestCall(call.name, call.input),
    ...omitUndefined({ expiresAt: expiresInMs === undefined ? undefined : now + 1 + expiresInMs }),
  };
}

/** Returns a `turn.completed` with the calls of a round and the environment's usage. */
export function makeCallingTurn(round: Round, context: Context, environment: Environment): UntimedEvent {
  return { ...makeTurn({ calls: makeRound(round, context) }), ...spendTurn(context, environment) };
}

function spendTurn(context: Context, { usage, turnMs }: Environment) {
  const { provider = 'test', model = 'first' } = context.config.models[context.turn.model] ?? {};
  const startedAt = context.now + 1 - turnMs;
  const token = `after turn ${context.turn.number}`;
  return { provider, model, usage, startedAt, continuation: { provider, model, instructions: '', token } };
}

/** Returns every outcome of a model call. */
function listTurnReports(context: Context, environment: Environment): UntimedEvent[] {
  const { now, turns } = context;
  const rounds = turns === 0 ? environment.firstRounds : environment.rounds;
  const startedAt = now + 1 - environment.turnMs;
  const mayAnswer = turns > 0 || environment.mayAnswerAtOnce;
  const reports: UntimedEvent[] = [
    { type: 'text.started' },
    { type: 'calls.started' },
    ...(mayAnswer ? [answering('done')] : []),
    ...rounds.map(round => makeTurn({ calls: makeRound(round, context) })),
    ...(mayAnswer ? environment.endings.map(finishReason => makeTurn({ finishReason })) : []),
    ...(environment.cutOff.length === 0
      ? []
      : environment.endings.map(finishReason =>
          makeTurn({ finishReason, calls: makeRound(environment.cutOff, context), text: 'so far' }),
        )),
    { ...failing({ retryable: false }), startedAt },
    { ...failing(), startedAt },
    { ...failing({ retryAt: now + 10_000 }), startedAt },
  ];
  const spent = spendTurn(context, environment);
  return reports.map(event => (event.type === 'turn.completed' ? { ...event, ...spent } : event));
}

/** Returns what people may do in any state: send, pause, step, cancel. */
function listClientEvents(context: Context, { mostUnread = 1 }: Environment): UntimedEvent[] {
  const { inbox, paused, steps, turn, now, calls, cancelling } = context;
  const text = `message ${turn.number}, ${now}, ${inbox.length}`;
  const unsettled = calls.filter(({ status }) => status !== 'settled').map(({ callId }) => callId);
  if (cancelling !== null) return [{ type: 'run.cancelled', unsettled }];
  return [
    ...(inbox.length < mostUnread ? [saying(text)] : []),
    ...(inbox.length + 2 <= mostUnread ? [sayingTwice(text)] : []),
    { type: paused ? 'run.unpaused' : 'pause.requested' },
    ...(steps === 0 ? [{ type: 'step.requested' } as const] : []),
    { type: 'cancel.requested', deadline: now + 1000 },
    { type: 'run.cancelled', unsettled },
  ];
}

const sayingTwice = (text: string): UntimedEvent => ({
  type: 'message.received',
  items: [userMessage(text), userMessage(`${text}, and more`)],
});

/** Returns edits of the transcript and the parameters. A transcript is edited at rest, and keeps every call that may have run. */
function listEdits(place: string, context: Context): UntimedEvent[] {
  const { calls, transcript, turns, lastTurn, edited } = context;
  const set: UntimedEvent = { type: 'params.changed', params: { toolChoice: 'auto' } };
  if (edited || !place.startsWith('resting')) return [set];
  const message = userMessage(`edited ${turns}`);
  const answer: Item = { type: 'message', role: 'assistant', content: [{ type: 'text', text: 'mine' }] };
  const known = nameCall(
    { name: 'look', input: {}, sideEffect: 'none', reconcilable: false, executedBy: 'engine', gate: false },
    `known_${turns}`,
    context,
  );
  const results = [{ callId: known.callId, output: 'known', isError: false }];
  const kept = calls.map(({ callId, name, input, digest, sideEffect, reconcilable, executedBy, gate }) => ({
    callId,
    name,
    input,
    digest,
    sideEffect,
    reconcilable,
    executedBy,
    gate,
  }));
  return [
    set,
    editing([message], []),
    ...(lastTurn === null ? [] : [editing([message, answer], [])]),
    { ...editing([...makeTurn({ calls: [known] }).items, message], [known]), results },
    ...(calls.length === 0 ? [] : [editing([...transcript, message], kept)]),
  ];
}

const editing = (items: Item[], calls: QualifiedCall[]): UntimedOf<'transcript.edited'> => ({
  type: 'transcript.edited',
  items,
  calls,
});

/** Returns the decisions about a call. Decisions that its status does not allow become invalid events. */
function listDecisions(context: Context, call: Call, environment: Environment): UntimedEvent[] {
  const { callId, status, childRunId } = call;
  const isClients = status === 'waiting' && childRunId === undefined;
  return [
    ...(status === 'gated' ? listApprovals(context, call, environment) : []),
    ...(status !== 'gated' && environment.invalidEvents ? [approving(call)] : []),
    ...(isClients || environment.invalidEvents
      ? environment
          .outputs(call.name)
          .slice(0, isClients ? undefined : 1)
          .map(output => receiving(callId, output))
      : []),
    ...(status === 'doubted' || environment.invalidEvents ? [resolving(callId, { type: 'retry' })] : []),
    ...(isClients ? [{ ...receiving(callId, 'it broke'), isError: true }] : []),
    ...(status === 'waiting' && childRunId !== undefined
      ? [
          { ...receiving(callId, 'found out'), childRunId, spent: SPENT },
          { ...receiving(callId, 'it failed'), childRunId, spent: SPENT, isError: true },
        ]
      : []),
    ...(status === 'doubted'
      ? [
          resolving(callId, { type: 'happened', output: 'it happened' }),
          resolving(callId, { type: 'failed', reason: 'it did not work' }),
        ]
      : []),
  ];
}

function listApprovals({ now, sticky }: Context, call: Call, environment: Environment): UntimedEvent[] {
  const { callId, name, digest, expiresAt } = call;
  const input = environment.editedInput(call);
  const decided = { type: 'approval.decided', callId, digest } as const;
  const refusals: UntimedOf<'approval.decided'>[] = [
    { ...decided, decision: { type: 'reject', reason: 'no' } },
    { ...decided, decision: { type: 'answer', output: 'a person answered' } },
  ];
  if (environment.approvals === false) return refusals;
  const decisions: UntimedOf<'approval.decided'>[] = [
    approving(call),
    ...refusals,
    { ...decided, decision: { type: 'approve', input, editDigest: digestCall(name, input) } },
  ];
  return [
    ...decisions,
    ...(environment.sticky && sticky.length === 0
      ? [
          { ...approving(call), sticky: true },
          { ...approving(call), decision: { type: 'reject' as const }, sticky: true },
        ]
      : []),
    ...(environment.invalidEvents
      ? decisions.map(decision => ({ ...decision, digest: 'of something else' }))
      : []),
    ...(expiresAt === undefined ? [] : listLate(decisions, Math.max(expiresAt, now + 1), environment)),
  ];
}

/** Decisions after the expiry of a call whose timer has not fired yet. */
function listLate(
  decisions: readonly UntimedEvent[],
  at: number,
  { invalidEvents }: Environment,
): UntimedEvent[] {
  return decisions.slice(0, invalidEvents ? undefined : 1).map(decision => ({ ...decision, at }));
}

const approving = ({ callId, digest }: QualifiedCall): UntimedOf<'approval.decided'> => ({
  type: 'approval.decided',
  callId,
  digest,
  decision: { type: 'approve' },
});

/** Returns the result that a client sends for its call. */
export const receiving = (callId: string, output: JsonValue): UntimedOf<'result.received'> => ({
  type: 'result.received',
  callId,
  output,
  isError: false,
});

type Resolution = UntimedOf<'doubt.resolved'>['resolution'];

/** Returns what a person decides about a call in doubt. */
const resolving = (callId: string, resolution: Resolution): UntimedEvent => ({
  type: 'doubt.resolved',
  callId,
  resolution,
});

const QUARANTINED: UntimedEvent = {
  type: 'run.quarantined',
  reason: 'five processes in a row ended here',
};

/** What the run of a sub-agent spends. */
const SPENT = { turns: 1, toolCalls: 1, usage: null, cost: 0, activeMs: 5 };

/** Returns edits of the latest turn: its calls are dropped, or the first is changed. */
function listTurnEdits(place: string, context: Context, environment: Environment): UntimedEvent[] {
  const { calls, turn, lastTurn } = context;
  if (!place.startsWith('resting') || lastTurn === null) return [];
  const [first, ...others] = calls;
  const changed = first === undefined ? [] : [editedCall(first, environment), ...others.map(qualifiedOf)];
  return [
    editingTurn(turn.number, []),
    ...(first === undefined ? [] : [editingTurn(turn.number, changed)]),
    ...(environment.invalidEvents ? [editingTurn(turn.number + 1, [])] : []),
  ];
}

function editingTurn(turn: number, calls: QualifiedCall[]): UntimedOf<'turn.edited'> {
  const { items, text } = makeTurn({ calls, text: 'mine' });
  return { type: 'turn.edited', turn, text, items, calls };
}

/** Returns edits of the calls, also of those that have started, whose edits must be ignored. */
function listCallEdits({ calls }: Context, environment: Environment): UntimedEvent[] {
  return calls.flatMap(call => {
    const edit: UntimedOf<'call.edited'> = {
      type: 'call.edited',
      callId: call.callId,
      digest: call.digest,
      call: editedCall(call, environment),
    };
    return [edit, ...(environment.invalidEvents ? [{ ...edit, digest: 'of something else' }] : [])];
  });
}

function editedCall(call: Call, environment: Environment): QualifiedCall {
  const input = environment.editedInput(call);
  return { ...qualifiedOf(call), input, digest: digestCall(call.name, input) };
}

function qualifiedOf(call: Call): QualifiedCall {
  const { status, attempt, key, edited, doubt, childRunId, result, ...qualified } = call;
  return qualified;
}

const BREAKPOINTS: readonly Breakpoint[] = [
  { id: 'spending' },
  { id: 'once', next: 'executeTools', once: true },
  { id: 'approval', next: 'interruptForApproval' },
];

/** Returns one breakpoint at a time, and their removal. */
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
    answering('stale'),
    failing(),
    starting(callId),
    settling(callId, { output: 'stale' }),
    { type: 'tool.interrupted', callId },
    { type: 'tool.doubted', callId, reason: 'stale' },
    { type: 'tool.suspended', callId, childRunId: 'child' },
    { type: 'timer.fired' },
    { type: 'finishers.completed' },
    { type: 'finishers.rejected', feedback: 'stale' },
  ];
  const unknown = { callId: 'unknown', digest: 'unknown' };
  return [
    ...reports.map(report => ({ ...report, generation: generation - 1 })),
    ...reports.filter(({ type }) => !belongs(type, place)),
    { type: 'approval.decided', ...unknown, decision: { type: 'approve' } },
    receiving('unknown', 'stale'),
    resolving('unknown', { type: 'retry' }),
    { type: paused ? 'pause.requested' : 'run.unpaused' },
    ...(cancelling === null ? [] : [{ type: 'cancel.requested', deadline: cancelling.deadline } as const]),
    ...(belongs('run.quarantined', place) ? [] : [QUARANTINED]),
  ];
}

/** Whether an event of the type may be valid in the state. A timer can only fire where one was started. */
function belongs(type: UntimedEvent['type'], place: string): boolean {
  if (type === 'run.quarantined') return /^(turn|executingTools|finishing)/.test(place);
  if (type.startsWith('tool.')) return place === 'executingTools';
  if (type.startsWith('finishers.')) return place === 'finishing';
  if (type === 'timer.fired') return place === 'backingOff' || place.startsWith('resting');
  return place.startsWith('turn');
}
