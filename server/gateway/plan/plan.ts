import { openCallsOf } from '../../../machines/settled.ts';
import type { ChartState } from '../../../machines/step.ts';
import type { Item, MessageItem } from '../../../protocol/item.ts';
import type { Answer, OpenReference } from '../../../protocol/open/answer.ts';
import { invalid, type ResponsesError } from '../../openai-error.ts';
import type { FoundResponse } from '../runs/response-library.ts';
import type { ExposedTool } from '../runs/response-spec.ts';
import type { RunResponses } from '../runs/run-responses.ts';

/** A request's answer to an open call. */
export type CallAnswer = { open: Extract<OpenReference, { callId: string }>; answer: Answer };

/**
 * The tool that a call in the input was made for. `modelName` is the name under which the model called it, if that is
 * stored.
 */
export type CallOrigin = { tool: ExposedTool; modelName?: string };

/** What to do for a request. */
export type Plan =
  /**
   * Start a new run. It may continue an ended run, or use items of the response `refersTo` and its chain. `origins` are
   * the tools of the calls among the items, by call id.
   */
  | {
      type: 'start';
      continues?: RunResponses;
      refersTo?: string;
      items: Item[];
      origins: ReadonlyMap<string, CallOrigin>;
    }
  /** Continue the run; with `forkAt`, continue a fork of it at that entry. */
  | {
      type: 'continue';
      run: RunResponses;
      forkAt?: number;
      callAnswers: CallAnswer[];
      messages: MessageItem[];
    }
  /** The request was made before: return the same response. */
  | { type: 'repeat'; found: FoundResponse };

/** Whether an item comes from the client: a message of another role than assistant, or the result of a call. */
export function isClientItem(item: Item): boolean {
  return item.type === 'tool_result' || (item.type === 'message' && item.role !== 'assistant');
}

/** The messages among the items. */
export function messagesIn(items: readonly Item[]): MessageItem[] {
  return items.filter(item => item.type === 'message');
}

/**
 * The results for calls that wait in `state`; the first result of a call counts. Throws a `ResponsesError` for a result
 * that no call waits for.
 */
export function outputsFor({ context }: ChartState, items: readonly Item[]): CallAnswer[] {
  const called = calledIn(items);
  const open = openCallsOf(context, 'result');
  const outputs = new Map<string, CallAnswer>();
  for (const item of items) {
    if (item.type !== 'tool_result' || outputs.has(item.callId)) continue;
    const { callId, output, isError } = item;
    if (open.some(call => call.callId === callId))
      outputs.set(callId, { open: { kind: 'result', callId }, answer: { type: 'result', output, isError } });
    else if (!called.has(callId)) throw unknownCallError(callId);
  }
  return [...outputs.values()];
}

/** Throws a `ResponsesError` unless every call has a result and every result a call, as providers require. */
export function assertPaired(items: readonly Item[]): void {
  const called = calledIn(items);
  const answered = new Set(items.flatMap(item => (item.type === 'tool_result' ? [item.callId] : [])));
  for (const callId of called) if (!answered.has(callId)) throw missingOutputError(callId);
  for (const callId of answered) if (!called.has(callId)) throw unknownCallError(callId);
}

function calledIn(items: readonly Item[]): Set<string> {
  return new Set(items.flatMap(item => (item.type === 'tool_call' ? [item.callId] : [])));
}

/** The error for a waiting call without a result. */
export function missingOutputError(callId: string): ResponsesError {
  return invalid('input', 'tool_output_missing', `No tool output found for function call ${callId}.`);
}

function unknownCallError(callId: string): ResponsesError {
  return invalid(
    'input',
    'tool_call_not_found',
    `No tool call found for function call output with call_id ${callId}.`,
  );
}

/** The error for an input without a message or result. `name` is the client's name of the input. */
export function emptyInputError(name = 'input'): ResponsesError {
  const message = `'${name}' is empty. Send a message or a function call output.`;
  return invalid(name, 'input_items_empty', message);
}
