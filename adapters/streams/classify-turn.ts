import type { FinishReason, ToolCall } from '../../protocol/turn.ts';
import { type CallLike, failed, toolCallFrom } from './tool-call-from.ts';

/** A turn as its caller has to treat it: tool calls to run, or the final answer. */
export type ClassifiedTurn =
  | { type: 'tool_calls'; toolCalls: ToolCall[]; text: string }
  | { type: 'final_answer'; text: string };

/** The members of a turn that classification needs. A `ModelTurn` fits. */
type TurnLike = {
  text?: string | null;
  toolCalls?: readonly CallLike[] | null;
  finishReason?: FinishReason | undefined;
};

/**
 * Classifies a turn. It is `tool_calls` if it has calls that the provider did not run itself, or if the
 * provider finished with `tool_calls` (`toolCalls` may then be empty). `toolCalls` omits calls that the
 * provider ran.
 */
export function classifyTurn(turn: TurnLike): ClassifiedTurn {
  const toolCalls = callsToRun(turn);
  const text = turn.text ?? '';
  return toolCalls.length > 0 || turn.finishReason === 'tool_calls'
    ? { type: 'tool_calls', toolCalls, text }
    : { type: 'final_answer', text };
}

/**
 * Returns the calls that the provider did not run itself. In a turn that was cut off by its length limit they
 * have an `error` and no `input`, because their arguments may be incomplete.
 */
export function callsToRun({ toolCalls, finishReason }: TurnLike): ToolCall[] {
  const calls = (toolCalls ?? [])
    .map((call, index) => toolCallFrom(call, index))
    .filter(call => call.executedBy !== 'provider');
  return finishReason === 'length' ? calls.map(call => failed(call, CUT_OFF)) : calls;
}

const CUT_OFF = 'The turn was cut off by its length limit, so this call may be incomplete. It was not run.';
