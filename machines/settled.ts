import type { ChartEvent, People } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import { omitUndefined } from '../protocol/json.ts';
import { refusalOf } from '../protocol/message.ts';
import type {
  Incomplete,
  JsonCall,
  JsonOpenCall,
  Open,
  OpenCallKind,
  OpenQuestion,
  OpenReview,
  OpenSignIn,
  RunView,
  Settled,
  UnsettledCall,
} from '../protocol/run-view.ts';
import type { Call, CallStatus, Context } from './context.ts';
import { openDuties } from './duties.ts';
import { toolResults } from './tool-results.ts';

/** How a run ended: the output of the machine. */
export type Ended = Exclude<Settled, { status: 'waiting' }>;

type In<Status extends Settled['status']> = Extract<Settled, { status: Status }>;

/** Describes a run that finished. `text` is the answer before text filters, which the chart does not know. */
export function describeFinished(context: Context): In<'finished'> {
  const { agent, answer, answeredBy, inbox } = context;
  const incomplete = describeIncomplete(context);
  return {
    ...spentIn(context),
    status: 'finished',
    agent: answeredBy?.type === 'agent' ? answeredBy.agent : agent.name,
    text: answer?.text ?? '',
    results: toolResults(context),
    unread: inbox,
    ...omitUndefined({ output: answer?.output }),
    ...(incomplete && { incomplete }),
  };
}

/** Why the answer of a finished run is incomplete; `undefined` if it is not. */
export function describeIncomplete({ next, transcript }: Context): Incomplete | undefined {
  const reason = next?.type === 'finish' ? next.reason : undefined;
  if (reason === undefined) return undefined;
  const isGiven = (item: Item) =>
    item.type === 'tool_result' || (item.type === 'message' && item.role !== 'assistant');
  const refusal = transcript
    .slice(transcript.findLastIndex(isGiven) + 1)
    .map(refusalOf)
    .join('');
  return { reason, ...(refusal !== '' && { refusal }) };
}

export function describeFailed(context: Context): In<'failed'> {
  const { next } = context;
  if (next?.type !== 'fail') throw new Error('expected the next action of a failed run to be "fail"');
  return { ...spentIn(context), status: 'failed', error: { code: next.code, message: next.message } };
}

export function describeCancelled(context: Context): In<'cancelled'> {
  return { ...spentIn(context), status: 'cancelled', unsettled: listUnsettled(context) };
}

export function describeWaiting(context: Context): In<'waiting'> {
  return {
    ...spentIn(context),
    status: 'waiting',
    ...partsOf(listOpen(context)),
    results: toolResults(context),
    paused: context.paused,
  };
}

/** Returns the event that ends a run as cancelled, without its time. */
export function describeCancel(
  context: Context,
  { by, reason }: { by?: string; reason?: string },
): Omit<Extract<ChartEvent, { type: 'run.cancelled' }>, 'at'> {
  const unsettled = listUnsettled(context).map(call => call.callId);
  return { type: 'run.cancelled', unsettled, ...omitUndefined({ reason, by }) };
}

type Parts = Pick<In<'waiting'>, 'open' | 'approvals' | 'doubts' | 'questions' | 'reviews'>;

export function partsOf(open: Open[]): Parts {
  return {
    open,
    approvals: open.filter(one => one.kind === 'approval'),
    doubts: open.filter(one => one.kind === 'doubt'),
    questions: open.filter(one => one.kind === 'question'),
    reviews: open.filter(one => one.kind === 'review'),
  };
}

/** A call in this status is …: for people. */
export const STATUS_WORDS: Readonly<Record<CallStatus, string>> = {
  gated: 'waiting for approval',
  ready: 'ready',
  queued: 'queued',
  running: 'running',
  reconciling: 'being asked for its outcome',
  asking: 'waiting for answers',
  waiting: 'waiting for its result',
  doubted: 'in doubt',
  settled: 'settled',
};

export function describeUnsettled({ name, callId, status, waitsFor }: UnsettledCall): string {
  const words = waitsFor === undefined ? STATUS_WORDS[status] : `waiting in run ${waitsFor}`;
  return `${name} (${callId}), ${words}`;
}

/** What a call in this status needs from outside; nothing in any other. */
export const OPEN_KINDS: Partial<Record<CallStatus, OpenCallKind | 'question'>> = {
  gated: 'approval',
  asking: 'question',
  waiting: 'result',
  doubted: 'doubt',
};

/** Returns what the run itself waits for from outside. A call that waits for a sub-agent's run is left out. */
export function listOpen(context: Context): RunView['open'] {
  const { runId, paused, quarantined, calls, signIns } = context;
  const open: RunView['open'] = calls.flatMap(call => describeOpen(context, call) ?? []);
  open.push(...describeReview(context), ...signIns.map(one => describeSignIn(runId, one)));
  if (!paused) return open;
  return [
    ...open,
    { id: `pause:${runId}`, kind: 'pause', runId, ...omitUndefined({ reason: quarantined ?? undefined }) },
  ];
}

/** Describes a call that waits for a person or a client outside the run; `null` for any other. */
export function describeOpen(context: Context, call: Call): JsonOpenCall | OpenQuestion | null {
  const { runId, people } = context;
  const kind = OPEN_KINDS[call.status];
  if (kind === undefined || call.childRunId !== undefined) return null;
  if (kind === 'question') return describeQuestions(context, call);
  return { id: `${kind}:${runId}:${call.callId}`, kind, ...factsOf(call, runId, people) };
}

function describeQuestions({ runId, people }: Context, call: Call): OpenQuestion | null {
  const { callId, name, input, sideEffect, asked } = call;
  const [first] = asked?.questions ?? [];
  if (asked === undefined || first === undefined) return null;
  const { digest, questions } = asked;
  const expiries = questions.flatMap(({ expiresAt }) => expiresAt ?? []);
  const expiresAt = expiries.length === 0 ? undefined : Math.min(...expiries);
  const reason = questions.map(({ message }) => message).join('\n');
  const facts = { kind: 'question', callId, runId, name, input, digest, sideEffect, reason } as const;
  const { by, not } = questions.length === 1 ? first : {};
  const duties = openDuties(omitUndefined({ by, not }), people);
  return {
    id: `question:${runId}:${callId}`,
    ...facts,
    ...duties,
    ...omitUndefined({ expiresAt }),
    questions,
  };
}

/** The review that is open; nothing without one. */
export function describeReview({ runId, people, review, answer }: Context): OpenReview[] {
  if (review === null) return [];
  const { id: callId, digest, reason, expiresAt } = review;
  const facts = { id: `review:${runId}:${callId}`, kind: 'review', runId, callId, digest, reason } as const;
  const { text = '', output } = answer ?? {};
  return [{ ...facts, answer: text, ...omitUndefined({ output, expiresAt }), ...openDuties(review, people) }];
}

function describeSignIn(runId: string, { server, url }: Pick<OpenSignIn, 'server' | 'url'>): OpenSignIn {
  const id = `sign-in:${runId}:${server}`;
  const reason = `A person must sign in at "${server}".`;
  return { id, kind: 'sign-in', runId, server, reason, ...omitUndefined({ url }) };
}

export function openCallsOf(context: Context, kind: OpenCallKind): JsonOpenCall[] {
  const open = context.calls.flatMap(call => describeOpen(context, call) ?? []);
  return open.flatMap(call => (call.kind === kind ? [call] : []));
}

/** Returns the calls of the open round that have no result. */
export function listUnsettled(context: Context): JsonCall[] {
  return context.calls.filter(call => call.status !== 'settled').map(call => unsettledCall(context, call));
}

const spentIn = ({ usage, turns }: Context) => ({ usage, turns });

function unsettledCall({ runId, people }: Context, call: Call): JsonCall {
  const { childRunId, status } = call;
  return {
    ...factsOf(call, childRunId ?? runId, people),
    status: status === 'settled' ? 'ready' : status,
    ...omitUndefined({ waitsFor: childRunId }),
  };
}

function factsOf(call: Call, runId: string, people: People): Omit<JsonCall, 'status'> {
  const { callId, name, input, digest, sideEffect, doubt, reason, expiresAt } = call;
  const facts = { callId, runId, name, input, digest, sideEffect };
  return { ...facts, ...omitUndefined({ reason: doubt ?? reason, expiresAt }), ...openDuties(call, people) };
}
