import type { ChartState } from '../../../machines/step.ts';
import type { Item, MessageItem } from '../../../protocol/item.ts';
import { invalid, type ResponsesError } from '../api-error.ts';
import type { Verdict } from './plan.ts';

/** Whether an item is the client's to say: a message that is not the model's, or the result of a call. */
export function isClientItem(item: Item): boolean {
  return item.type === 'tool_result' || (item.type === 'message' && item.role !== 'assistant');
}

export function messagesIn(items: readonly Item[]): MessageItem[] {
  return items.filter(item => item.type === 'message');
}

/** The results for calls that wait in `state`, first words first. Throws for a result that no call waits for. */
export function outputsFor({ context }: ChartState, items: readonly Item[]): Verdict[] {
  const called = calledIn(items);
  const outputs = new Map<string, Verdict>();
  for (const item of items) {
    if (item.type !== 'tool_result' || outputs.has(item.callId)) continue;
    const { callId, output } = item;
    const call = context.calls.find(known => known.callId === callId);
    if (call?.status === 'waiting') outputs.set(callId, { type: 'output', callId, output });
    else if (!called.has(callId)) throw noCall(callId);
  }
  return [...outputs.values()];
}

/** Throws unless every call has its result, and every result its call: what providers demand of a history. */
export function assertPaired(items: readonly Item[]): void {
  const called = calledIn(items);
  const answered = new Set(items.flatMap(item => (item.type === 'tool_result' ? [item.callId] : [])));
  for (const callId of called) if (!answered.has(callId)) throw missingOutputError(callId);
  for (const callId of answered) if (!called.has(callId)) throw noCall(callId);
}

function calledIn(items: readonly Item[]): Set<string> {
  return new Set(items.flatMap(item => (item.type === 'tool_call' ? [item.callId] : [])));
}

export function missingOutputError(callId: string): ResponsesError {
  return invalid('input', 'tool_output_missing', `No tool output found for function call ${callId}.`);
}

function noCall(callId: string): ResponsesError {
  return invalid(
    'input',
    'tool_call_not_found',
    `No tool call found for function call output with call_id ${callId}.`,
  );
}

export function emptyInputError(): ResponsesError {
  return invalid('input', 'input_items_empty', "'input' has nothing to answer: send a message.");
}
