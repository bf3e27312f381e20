import { messageOf } from '../../protocol/error.ts';
import type { ToolResultItem } from '../../protocol/item.ts';
import { toJson } from '../../protocol/json.ts';

/** A tool result in another library's format. */
export type ResultLike = {
  callId?: string | null;
  /** Alternative name of `callId`. */
  id?: string | null;
  /** A plain value, its JSON text, or the `Error` that the tool failed with. */
  output?: unknown;
  isError?: boolean;
};

/**
 * Converts a result to a transcript item. Text is not encoded again, so a value and its JSON text reach the
 * model the same way. Throws a `TypeError` without a call id, or for an output that JSON cannot represent.
 *
 * @example
 * const item = toolResultFrom({ callId: call.callId, output: { temperature: 21 } });
 */
export function toolResultFrom(result: ResultLike): ToolResultItem {
  const callId = result.callId || result.id;
  if (!callId) throw new TypeError('The tool result has no callId.');
  const { output } = result;
  const isError = result.isError ?? output instanceof Error;
  return {
    type: 'tool_result',
    callId,
    output: output instanceof Error ? messageOf(output) : toJson(output),
    isError,
  };
}
