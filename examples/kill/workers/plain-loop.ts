import type { Item } from '../../../protocol/item.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import type { ModelTurn, ToolCall } from '../../../protocol/turn.ts';

type PlainLoop = {
  transcript: Item[];
  model(transcript: readonly Item[]): Promise<ModelTurn>;
  askPerson(call: ToolCall): Promise<{ approved: true }>;
  refund(call: ToolCall): Promise<JsonValue>;
  /** Runs `act` and records its result. A step that is already recorded is not run again. */
  step<Result>(act: () => Promise<Result>): Promise<Result>;
};

/** The left side: a typical agent loop that records every step after it ran. */
export async function plainLoop({ transcript, model, askPerson, refund, step }: PlainLoop): Promise<string> {
  // The page shows from here
  for (;;) {
    const turn = await step(() => model(transcript));
    transcript.push(...turn.items);
    if (turn.toolCalls.length === 0) return turn.text;

    for (const call of turn.toolCalls) {
      await step(() => askPerson(call));
      const output = await step(() => refund(call));
      transcript.push(resultOf(call, output));
    }
  }
  // to here
}

function resultOf({ callId }: ToolCall, output: JsonValue): Item {
  return { type: 'tool_result', callId, output, isError: false };
}
