import type { FinishReason, ToolCall } from '../../protocol/turn.ts';
import { type CallLike, failed, toolCallFrom } from './tool-call-from.ts';

export type ClassifiedTurn =
  | { type: 'tool_calls'; toolCalls: ToolCall[]; text: string }
  | { type: 'final_answer'; text: string };

/** As much of a turn as it takes to classify it. A `ModelTurn` is one. */
export type TurnLike = {
  text?: string | null;
  toolCalls?: readonly CallLike[] | null;
  finishReason?: FinishReason | undefined;
};

/**
 * Whether somebody has to act on the turn: it has calls that the provider did not run itself, or the
 * provider finished with `tool_calls` (`toolCalls` can then be empty). `toolCalls` leaves out the provider's own.
 */
export function classifyTurn(turn: TurnLike): ClassifiedTurn {
  const toolCalls = callsToRun(turn);
  const text = turn.text ?? '';
  return toolCalls.length > 0 || turn.finishReason === 'tool_calls'
    ? { type: 'tool_calls', toolCalls, text }
    : { type: 'final_answer', text };
}

/**
 * The calls that the provider did not run itself. Those of a turn that was cut off by its length have an
 * `error` and no `input`: what looks like a call without arguments may be one whose arguments never came.
 */
export function callsToRun({ toolCalls, finishReason }: TurnLike): ToolCall[] {
  const calls = (toolCalls ?? [])
    .map((call, index) => toolCallFrom(call, index))
    .filter(call => call.executedBy !== 'provider');
  return finishReason === 'length' ? calls.map(call => failed(call, CUT_OFF)) : calls;
}

const CUT_OFF = 'The turn was cut off by its length limit, so this call may not be whole. It was not run.';
