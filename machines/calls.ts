import type { QualifiedCall } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import { omitUndefined } from '../protocol/json.ts';
import { oncePer } from '../protocol/once-per.ts';
import type { Call, CallResult, CallStatus, Context, LastTurn } from './context.ts';
import { recordCall, recordDeed } from './ledger.ts';

/**
 * The current round of calls.
 *
 * C1 `open` counts the calls that are not settled; `batch` counts those queued, running or reconciling.
 * C2 A settled call never changes again.
 * C3 When the last call settles, all results enter the transcript at `resultsAt`, in call order, and the round becomes
 *    empty.
 */

const OWED_BY_BATCH: ReadonlySet<CallStatus> = new Set(['queued', 'running', 'reconciling']);
const BUSY: ReadonlySet<CallStatus> = new Set(['running', 'reconciling']);

export function findCall(context: Context, callId: string): Call | undefined {
  return context.calls[placeOf(context, callId)];
}

/** Where the calls of a turn are in its round, by call id: they keep their places. */
const placesIn = oncePer((_: LastTurn) => new Map<string, number>());

/** Up to this length, a search costs less than an index. */
const SHORT_LIST = 8;

function placeOf({ calls, lastTurn }: Context, callId: string): number {
  if (lastTurn === null || calls.length <= SHORT_LIST) return searchCall(calls, callId);
  const known = placesIn(lastTurn);
  const place = known.get(callId);
  if (place !== undefined && calls[place]?.callId === callId) return place;
  for (const [at, call] of calls.entries()) known.set(call.callId, at);
  return searchCall(calls, callId);
}

function searchCall(calls: readonly Call[], callId: string): number {
  return calls.findIndex(call => call.callId === callId);
}

export function callsWith(context: Context, status: CallStatus): Call[] {
  return context.open === 0 ? [] : context.calls.filter(call => call.status === status);
}

export function isBusy(context: Context): boolean {
  return context.calls.some(call => BUSY.has(call.status));
}

/** Changes an unsettled call and updates the counters; otherwise returns the context unchanged. */
export function changeCall(context: Context, callId: string, change: Partial<Call>): Context {
  const place = placeOf(context, callId);
  const before = context.calls[place];
  if (before === undefined || before.status === 'settled') return context;
  const after = { ...before, ...change };
  const calls = context.calls.with(place, after);
  return {
    ...context,
    calls,
    open: context.open - (after.status === 'settled' ? 1 : 0),
    batch: context.batch + owed(after) - owed(before),
  };
}

/** The call as its turn made it, or as it was edited: without what became of it. */
export function qualifiedOf(call: Call): QualifiedCall {
  const { status, attempt, key, edited, approvedBy, doubt, childRunId, forwards, result, ...rest } = call;
  const { asked, asks, answered, kept, ...qualified } = rest;
  return qualified;
}

/** The call with other facts, of which `change` leaves none but its own. */
export function replaceCall(context: Context, before: Call, bare: Call, change: Partial<Call>): Context {
  const calls = context.calls.map(one => (one === before ? bare : one));
  return changeCall({ ...context, calls }, before.callId, change);
}

export function settleCall(context: Context, callId: string, result: CallResult): Context {
  const call = findCall(context, callId);
  const recorded = recordCall(recordDeed(context, call, result), call, result);
  const settled = { status: 'settled', result } as const;
  if (call?.asked === undefined) return closeRound(changeCall(recorded, callId, settled));
  const { asked: _, ...bare } = call;
  return closeRound(replaceCall(recorded, call, bare, settled));
}

/** Settles a call whose outcome is not known yet. */
export function giveReceipt(context: Context, callId: string, receipt: CallResult): Context {
  return closeRound(changeCall(context, callId, { status: 'settled', result: receipt }));
}

/** Starts a round and its counters. A round whose calls are all settled is closed immediately. */
export function openRound(context: Context, calls: Call[]): Context {
  const open = calls.reduce((count, call) => count + (call.status === 'settled' ? 0 : 1), 0);
  return closeRound({ ...context, calls, open, batch: 0 });
}

function closeRound(context: Context): Context {
  if (context.open > 0 || context.calls.length === 0) return context;
  const { transcript, resultsAt } = context;
  const results = context.calls.map(resultItem);
  const at = resultsAt ?? transcript.length;
  const answered = transcript.slice(0, at).concat(results, transcript.slice(at));
  const closed = { ...context, calls: [], resultsAt: null, transcript: answered };
  return context.onlyCall === undefined ? closed : { ...closed, answer: answerOfCall(context.calls[0]) };
}

/** The answer of a run of one call is the result of the call. */
function answerOfCall(call: Call | undefined): Context['answer'] {
  const { output = null } = call?.result ?? {};
  return typeof output === 'string' ? { text: output } : { text: JSON.stringify(output), output };
}

/** The result of a call whose work continues in the background, in this run; without one, the client has the work. */
export function receiptOf(runId?: string): CallResult {
  const output = { ...omitUndefined({ runId }), status: 'started' };
  return { output, isError: false, receipt: runId === undefined ? 'client' : 'run' };
}

/** Settles calls of client tools in the background: each has its receipt once it is allowed. */
export function giveReceipts(context: Context): Context {
  const given = callsWith(context, 'waiting').filter(
    ({ executedBy, background }) => executedBy === 'client' && background === true,
  );
  return given.reduce((state, { callId }) => settleCall(state, callId, receiptOf()), context);
}

export function resultOf({ output, isError = false, shown, blob, receipt }: Outcome): CallResult {
  return {
    output,
    isError,
    ...omitUndefined({ shown, blob, receipt }),
  };
}

type Outcome = Omit<CallResult, 'isError'> & { isError?: boolean };

function resultItem(call: Call): Item {
  const { callId, result = { output: null, isError: true } } = call;
  return { type: 'tool_result', callId, ...result };
}

function owed(call: Call): number {
  return isOwed(call) ? 1 : 0;
}

export function isOwed({ status }: Call): boolean {
  return OWED_BY_BATCH.has(status);
}

/** Whether a rule lets the call run only with an approval. */
export function isAskedByRule({ verdicts = [] }: Pick<QualifiedCall, 'verdicts'>): boolean {
  return verdicts.some(({ verdict, shadow }) => verdict === 'ask' && shadow !== true);
}

/** The rule that ends the run because of the call. */
export function stopperOf({ verdicts = [] }: Pick<QualifiedCall, 'verdicts'>): string | undefined {
  return verdicts.find(({ verdict, shadow }) => verdict === 'stop' && shadow !== true)?.rule;
}

/** Whether a call may start before it is durable: nothing decided it, and it can safely run again. */
export function mayRunUnrecorded({
  sideEffect,
  executedBy,
  gate,
  edited,
  attempt,
  background,
}: Call): boolean {
  if (background === true) return false;
  return sideEffect === 'none' && executedBy === 'engine' && !gate && edited !== true && attempt === 0;
}

export function queueReadyCalls(context: Context): Context {
  let queued = 0;
  const calls = context.calls.map(call => {
    if (call.status !== 'ready') return call;
    queued += 1;
    return { ...call, status: 'queued' as const };
  });
  return { ...context, calls, batch: context.batch + queued };
}
