import type { RunEvent } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import { omitUndefined } from '../protocol/json.ts';
import type { FinishReason, ToolCall, Usage } from '../protocol/turn.ts';

/** A completed turn, as the loop body gets it. */
export type RunnerTurn = {
  /** The number of the turn in its run, from 1. */
  number: number;
  /** The model's text. */
  text: string;
  /** The tool calls that the model asked for. `error` is set for a call that is invalid and does not run. */
  toolCalls: Pick<ToolCall, 'callId' | 'name' | 'input' | 'error'>[];
  /** Why the model stopped. */
  finishReason: FinishReason;
  /** Token usage; `null` if the provider did not report it. */
  usage: Usage | null;
  /** The provider that replied. */
  provider: string;
  /** The model that replied. */
  model: string;
  /** The reply as transcript items. Push these to keep the reply when you edit the transcript. */
  items: Item[];
};

/** The journal entry of a completed turn. */
export type CompletedTurn = Extract<RunEvent, { type: 'turn.completed' }> & { seq: number };

/** Returns a completed turn as the loop body gets it. */
export function describeTurn(event: CompletedTurn, number: number): RunnerTurn {
  const { text, finishReason, usage, provider, model, items } = event;
  const toolCalls = event.calls.map(({ callId, name, input, error }) => ({
    callId,
    name,
    input,
    ...omitUndefined({ error }),
  }));
  return { number, text, toolCalls, finishReason, usage, provider, model, items };
}
