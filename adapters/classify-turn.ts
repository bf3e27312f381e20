import type { ModelTurn, ToolCall } from '../protocol/turn.ts';

export type ClassifiedTurn =
  | { type: 'tool_calls'; toolCalls: ToolCall[]; text: string }
  | { type: 'final_answer'; text: string };

/**
 * Whether somebody has to act on the turn: it has calls that the provider did not run itself, or the
 * provider finished with `tool_calls` (`toolCalls` can then be empty). `toolCalls` leaves out the provider's own.
 */
export function classifyTurn(turn: ModelTurn): ClassifiedTurn {
  const toolCalls = turn.toolCalls.filter(call => call.executedBy !== 'provider');
  return toolCalls.length > 0 || turn.finishReason === 'tool_calls'
    ? { type: 'tool_calls', toolCalls, text: turn.text }
    : { type: 'final_answer', text: turn.text };
}
