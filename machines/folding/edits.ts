import type { ChartEvent, QualifiedCall } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { textOf } from '../../protocol/message.ts';
import { changeCall, findCall } from '../calls.ts';
import type { Call, Context, LastTurn } from '../context.ts';
import { isAnswer } from '../decide-next-action.ts';
import { admitCalls } from './admit-calls.ts';
import { answerOf, isDraft } from './last-turn.ts';

/* What people change: the transcript, the latest turn, the input of a call. */

type Of<Type extends ChartEvent['type']> = Extract<ChartEvent, { type: Type }>;

/**
 * Replaces the transcript. Calls that it still contains keep their status; the others are dropped. Without open calls,
 * the run finishes if the last item is an answer, and otherwise calls the model.
 */
export function editTranscript(context: Context, event: Of<'transcript.edited'>): Context {
  const { items, calls } = event;
  const { lastTurn } = context;
  const last = items.at(-1);
  const edited: Context = {
    ...context,
    edited: true,
    transcript: items,
    calls: keptCalls(context, event),
    resultsAt: endOfCalls(items, calls),
    continuation: null,
    failure: null,
    sentBack: null,
    finishersDone: false,
    answer: last !== undefined && isAnswer(last) ? { text: textOf(last) } : null,
    lastTurn: lastTurn && withoutPlace(lastTurn),
  };
  return admitCalls(edited, calls, null);
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

/**
 * Replaces the items and the calls of the latest turn. A call that keeps its id and digest keeps its status; the others
 * are admitted like new ones, and those that they replace no longer count.
 */
export function editTurn(context: Context, event: Of<'turn.edited'>): Context {
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
    calls: kept,
    open: kept.length,
    resultsAt: null,
    continuation: null,
    finishersDone: false,
    toolCalls: context.toolCalls - dropped.filter(wasCounted).length,
    edits: context.edits.filter(({ callId }) => dropped.every(call => call.callId !== callId)),
    answer: answerOf(turn, text),
  };
  return admitCalls(edited, calls, null);
}

/** Whether the call counted as a tool call, and has not run. */
function wasCounted({ executedBy, status }: Call): boolean {
  return executedBy === 'engine' && (status === 'ready' || status === 'gated');
}

/** Replaces a call that has not started. It needs an approval again, unless a sticky rule gives it. */
export function editCall(context: Context, { callId, call }: Of<'call.edited'>): Context {
  const isAllowed = context.sticky.some(({ tool, decision }) => tool === call.name && decision === 'approve');
  const ready = call.executedBy === 'client' ? 'waiting' : 'ready';
  const { reason: _, expiresAt: __, ...before } = findCall(context, callId) ?? call;
  const calls = context.calls.map(one => (one.callId === callId ? ({ ...before } as Call) : one));
  const changed = changeCall({ ...context, calls }, callId, {
    ...call,
    status: call.gate && !isAllowed ? 'gated' : ready,
    edited: true,
  });
  return { ...changed, edits: [...changed.edits, { callId, input: call.input }] };
}
