import type { Item } from '../protocol/item.ts';
import type { JsonValue } from '../protocol/json.ts';
import type { PastCall } from '../protocol/rule.ts';
import type { Context } from './context.ts';
import { pastCall, providerCalls, wasBegun } from './ledger.ts';
import { toolResults } from './tool-results.ts';

/**
 * The history of a run without those before it. A run that keeps none has all that its transcript and its ledger show: a
 * refused call of it counts as begun.
 */
export function ownHistory(
  context: Pick<Context, 'history' | 'ledger' | 'transcript' | 'edits' | 'background'>,
): readonly PastCall[] {
  if (context.history !== undefined) return context.history;
  const isOpen = ({ callId }: PastCall) => context.background.some(work => work.callId === callId);
  const counted = Object.entries(context.ledger.counts).flatMap(([name, count]) =>
    Array.from({ length: count }, (): PastCall => ({ callId: '', name, input: null, outcome: 'done' })),
  );
  const shown = historyIn(context.transcript, context.edits);
  return [...counted, ...(context.background.length === 0 ? shown : shown.filter(one => !isOpen(one)))];
}

/** The history that a transcript shows. */
export function historyIn(transcript: readonly Item[], edits: Context['edits'] = []): readonly PastCall[] {
  const failed = new Set(
    transcript.flatMap(item =>
      item.type === 'message' && item.outcomeOf?.isError === true ? item.outcomeOf.callId : [],
    ),
  );
  const settled = toolResults({ transcript, edits }).map(
    ({ callId, name, input, isError }): PastCall => ({
      callId,
      name,
      // Read from JSON: from the text of the call, or from an edit of it.
      input: input as JsonValue,
      outcome: isError || failed.has(callId) ? 'failed' : 'done',
    }),
  );
  return [...providerCalls(transcript), ...settled];
}

/** The history for a run that continues this one: of what has begun and not settled, the outcome is not known. */
export function closeHistory(context: Context): readonly PastCall[] {
  const open = context.calls.filter(call => call.status !== 'settled' && wasBegun(call));
  const begun = [...context.background, ...open];
  return [...ownHistory(context), ...begun.map(call => pastCall(call, 'unknown'))];
}
