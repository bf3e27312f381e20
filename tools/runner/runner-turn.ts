import type { RunEvent } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import type { FinishReason, ToolCall, Usage } from '../../protocol/turn.ts';

/** One model call's reply, as the loop body sees it. `number` counts the run's turns from 1. */
export type RunnerTurn = {
  number: number;
  text: string;
  /** The calls that the agent or the client has to run. */
  toolCalls: Pick<ToolCall, 'callId' | 'name' | 'input' | 'error'>[];
  finishReason: FinishReason;
  usage: Usage | null;
  provider: string;
  model: string;
  /** Its entries in the transcript: what to push to keep the reply after an edit. */
  items: Item[];
};

export type CompletedTurn = Extract<RunEvent, { type: 'turn.completed' }> & { seq: number };

export function describeTurn(event: CompletedTurn, number: number): RunnerTurn {
  const { text, finishReason, usage, provider, model, items } = event;
  const toolCalls = event.calls.map(({ callId, name, input, error }) => ({
    callId,
    name,
    input,
    ...(error === undefined ? {} : { error }),
  }));
  return { number, text, toolCalls, finishReason, usage, provider, model, items };
}
