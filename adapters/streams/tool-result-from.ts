import { messageOf } from '../../protocol/error.ts';
import type { ToolResultItem } from '../../protocol/item.ts';
import { toJson } from '../../protocol/json.ts';

/** What a tool gave back, as other code has it. */
export type ResultLike = {
  callId?: string | null;
  /** What many call the `callId`. */
  id?: string | null;
  /** A plain value, its JSON text, or the `Error` it failed with. */
  output?: unknown;
  isError?: boolean;
};

/**
 * The result as the transcript has it. Text stays as it is, so that a value and its JSON text reach the
 * model alike. Throws a `TypeError` without a call id, and for an output that JSON cannot carry.
 */
export function toolResultFrom(result: ResultLike): ToolResultItem {
  const callId = result.callId || result.id;
  if (!callId) throw new TypeError('Expected a result with the callId of the call it answers, got none.');
  const { output } = result;
  const isError = result.isError ?? output instanceof Error;
  return {
    type: 'tool_result',
    callId,
    output: output instanceof Error ? messageOf(output) : toJson(output),
    isError,
  };
}
