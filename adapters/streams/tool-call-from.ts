import { toJson } from '../../protocol/json.ts';
import type { ToolCall } from '../../protocol/turn.ts';
import { toolCall } from '../turn/tool-call.ts';

/** A tool call in another library's format. Its arguments are a plain object or JSON text. */
export type CallLike = {
  callId?: string | null;
  /** Alternative name of `callId`. */
  id?: string | null;
  name: string;
  arguments?: unknown;
  /** Alternative name of `arguments`, used if there are none. */
  input?: unknown;
  error?: string;
  executedBy?: ToolCall['executedBy'];
};

/**
 * Converts a call to a `ToolCall`; a complete `ToolCall` is returned unchanged. Arguments that are not an
 * object give it an `error`; missing arguments mean `{}`. `index`, the call's position in the turn, names a
 * call that has no id. Throws a `TypeError` for arguments that JSON cannot represent.
 *
 * @example
 * const call = toolCallFrom({ id: 'call_1', name: 'get_weather', input: { city: 'Paris' } });
 */
export function toolCallFrom(call: CallLike, index = 0): ToolCall {
  if (isToolCall(call)) return call;
  const callId = call.callId || call.id || `call_${index}`;
  const made = toolCall(callId, call.name, textOf(call.arguments ?? call.input));
  const executedBy = call.executedBy ?? made.executedBy;
  return call.error === undefined ? { ...made, executedBy } : failed({ ...made, executedBy }, call.error);
}

/** Replaces the call's input with an error, so that it is not run. */
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
