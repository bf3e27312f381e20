import { toJson } from '../../protocol/json.ts';
import type { ToolCall } from '../../protocol/turn.ts';
import { toolCall } from '../turn/tool-call.ts';

/** A call as other code has it: its arguments are a plain object, or the JSON text of one. */
export type CallLike = {
  callId?: string | null;
  /** What many call the `callId`. */
  id?: string | null;
  name: string;
  arguments?: unknown;
  /** Counts where there are no `arguments`. */
  input?: unknown;
  error?: string;
  executedBy?: ToolCall['executedBy'];
};

/**
 * The call as a `ToolCall`; one that is one already passes unchanged. Arguments that are no object give
 * it an `error`, none at all mean `{}`. A call without an id is named by `index`, its place in the turn.
 * Throws a `TypeError` for arguments that JSON cannot carry.
 */
export function toolCallFrom(call: CallLike, index = 0): ToolCall {
  if (isToolCall(call)) return call;
  const callId = call.callId || call.id || `call_${index}`;
  const made = toolCall(callId, call.name, textOf(call.arguments ?? call.input));
  const executedBy = call.executedBy ?? made.executedBy;
  return call.error === undefined ? { ...made, executedBy } : failed({ ...made, executedBy }, call.error);
}

/** The call with `error` in the place of its input, so that nobody runs it. */
export function failed({ input: _, ...call }: ToolCall, error: string): ToolCall {
  return { ...call, error };
}

function isToolCall(call: CallLike): call is ToolCall {
  return (
    typeof call.callId === 'string' &&
    call.callId !== '' &&
    typeof call.arguments === 'string' &&
    call.executedBy !== undefined &&
    (call.input !== undefined || call.error !== undefined)
  );
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(toJson(value));
}
