import type { Item } from '../protocol/item.ts';
import type { Call, CallResult, CallStatus, Context } from './context.ts';

/**
 * The current round of calls.
 *
 * C1 `open` is the number of calls that are not settled, `batch` of those queued, running or reconciling.
 * C2 A settled call never changes again.
 * C3 When the last call settles, all results enter the transcript in call order, at `resultsAt`, and the
 *    round is empty.
 */

const OWED_BY_BATCH: ReadonlySet<CallStatus> = new Set(['queued', 'running', 'reconciling']);
const BUSY: ReadonlySet<CallStatus> = new Set(['running', 'reconciling']);

export function findCall({ calls }: Context, callId: string): Call | undefined {
  const place = placesOf(calls).get(callId);
  return place === undefined ? undefined : calls[place];
}

/** Calls keep their places while a round lasts, so that each copy of the list shares what is known of the first. */
const places = new WeakMap<readonly Call[], ReadonlyMap<string, number>>();

function placesOf(calls: readonly Call[]): ReadonlyMap<string, number> {
  const known = places.get(calls);
  if (known !== undefined) return known;
  const found = new Map(calls.map(({ callId }, place) => [callId, place]));
  places.set(calls, found);
  return found;
}

export function callsWith(context: Context, status: CallStatus): Call[] {
  return context.open === 0 ? [] : context.calls.filter(call => call.status === status);
}

export function isBusy(context: Context): boolean {
  return context.calls.some(call => BUSY.has(call.status));
}

export function changeCall(context: Context, callId: string, change: Partial<Call>): Context {
  const known = placesOf(context.calls);
  const place = known.get(callId);
  const before = place === undefined ? undefined : context.calls[place];
  if (place === undefined || before === undefined || before.status === 'settled') return context;
  const after = { ...before, ...change };
  const calls = context.calls.slice();
  calls[place] = after;
  places.set(calls, known);
  return {
    ...context,
    calls,
    open: context.open - (after.status === 'settled' ? 1 : 0),
    batch: context.batch + owed(after) - owed(before),
  };
}

export function settleCall(context: Context, callId: string, result: CallResult): Context {
  return closeRound(changeCall(context, callId, { status: 'settled', result }));
}

/** Begins a round: counters fit the calls' statuses, and a round that is settled already is closed. */
export function openRound(context: Context, calls: Call[]): Context {
  const open = calls.reduce((count, call) => count + (call.status === 'settled' ? 0 : 1), 0);
  return closeRound({ ...context, calls, open, batch: 0 });
}

function closeRound(context: Context): Context {
  if (context.open > 0 || context.calls.length === 0) return context;
  const { transcript, resultsAt } = context;
  const results = context.calls.map(resultItem);
  const at = resultsAt ?? transcript.length;
  const answered = [...transcript.slice(0, at), ...results, ...transcript.slice(at)];
  return { ...context, calls: [], resultsAt: null, transcript: answered };
}

/** What an event says a call gave, without the rest of the event. */
export function resultOf({ output, isError = false, shown, blob }: Outcome): CallResult {
  return {
    output,
    isError,
    ...(shown === undefined ? {} : { shown }),
    ...(blob === undefined ? {} : { blob }),
  };
}

type Outcome = Omit<CallResult, 'isError'> & { isError?: boolean };

function resultItem(call: Call): Item {
  const { output = null, isError = true, shown, blob } = call.result ?? {};
  return {
    type: 'tool_result',
    callId: call.callId,
    output,
    isError,
    ...(shown === undefined ? {} : { shown }),
    ...(blob === undefined ? {} : { blob }),
  };
}

function owed(call: Call): number {
  return isOwed(call) ? 1 : 0;
}

/** Belongs to the batch, which runs or was left. */
export function isOwed({ status }: Call): boolean {
  return OWED_BY_BATCH.has(status);
}

/**
 * Whether a call may start before anything is on disk: nobody had to allow it, nobody changed it, and another
 * process that finds no trace of it does no harm by running it again.
 */
export function mayRunUnrecorded({ sideEffect, executedBy, gate, edited, attempt }: Call): boolean {
  return sideEffect === 'none' && executedBy === 'engine' && !gate && edited !== true && attempt === 0;
}

/** Moves every ready call into the batch that is about to run. */
export function queueReadyCalls(context: Context): Context {
  let queued = 0;
  const calls = context.calls.map(call => {
    if (call.status !== 'ready') return call;
    queued += 1;
    return { ...call, status: 'queued' as const };
  });
  return { ...context, calls, batch: context.batch + queued };
}
