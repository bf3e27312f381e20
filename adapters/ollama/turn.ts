import type { Item } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { FinishReason, ModelRequest, ModelTurn, ToolCall, TurnDelta } from '../../protocol/turn.ts';
import { CallAccumulator } from '../turn/accumulate-calls.ts';
import { CallIds } from '../turn/call-ids.ts';
import { nonEmpty, objectOf, objectsOf, textIn } from '../turn/json-access.ts';
import { toolCall } from '../turn/tool-call.ts';
import { normalizeUsage } from '../turn/usage.ts';
import { keptCall } from './kept-call.ts';

/**
 * A turn of `/api/chat` as it comes: a whole body is one line of a stream.
 *
 * T1 Every call is whole, and a call of its own: parallel ones come one a line, all at position 0.
 * T2 The line that is `done` ends the turn, and alone has its usage.
 */
export class OllamaTurn {
  readonly #request: ModelRequest;
  readonly #model: string;
  readonly #text: string[] = [];
  readonly #thinking: string[] = [];
  readonly #calls = new CallAccumulator();
  #last: JsonObject = {};

  constructor(request: ModelRequest, model: string) {
    this.#request = request;
    this.#model = model;
  }

  get isDone(): boolean {
    return this.#last.done === true;
  }

  /** Takes a line in; what of it a reader of the stream can be shown. */
  push(line: JsonObject): TurnDelta[] {
    this.#last = line;
    const message = objectOf(line.message);
    const deltas: TurnDelta[] = [];
    const thinking = textIn(message.thinking);
    if (thinking !== '') {
      this.#thinking.push(thinking);
      deltas.push({ type: 'reasoning', text: thinking });
    }
    const text = textIn(message.content);
    if (text !== '') {
      this.#text.push(text);
      deltas.push({ type: 'text', text });
    }
    for (const call of objectsOf(message.tool_calls)) {
      const { name, arguments: input } = objectOf(call.function);
      deltas.push(
        ...this.#calls.add({
          id: nonEmpty(call.id) ?? null,
          name: nonEmpty(name) ?? null,
          arguments: input ?? null,
        }),
      );
    }
    return deltas;
  }

  /** The turn, once it is done. */
  end(): ModelTurn {
    const text = this.#text.join('');
    const reasoning = this.#thinking.join('');
    const items: Item[] = [];
    if (reasoning !== '') items.push({ type: 'reasoning', text: reasoning });
    if (text !== '') items.push({ type: 'message', role: 'assistant', content: [{ type: 'text', text }] });
    const ids = new CallIds(this.#request.transcript);
    const toolCalls: ToolCall[] = [];
    for (const { id, name, arguments: written } of this.#calls.calls()) {
      const call = toolCall(ids.name(id, toolCalls.length), name, written);
      toolCalls.push(call);
      items.push({
        type: 'tool_call',
        callId: call.callId,
        name,
        arguments: call.arguments,
        ...(id === null ? {} : { opaque: keptCall(id) }),
      });
    }
    return {
      text,
      reasoning,
      toolCalls,
      finishReason: finishReasonOf(this.#last, toolCalls.length > 0),
      usage: normalizeUsage({ input: this.#last.prompt_eval_count, output: this.#last.eval_count }),
      model: nonEmpty(this.#last.model) ?? this.#model,
      items,
    };
  }
}

/** Calls come with `stop`, by design; `load` and `unload` say that there was nothing to answer. Old servers give no reason. */
function finishReasonOf({ done_reason: reason }: JsonObject, calls: boolean): FinishReason {
  if (reason === 'length') return 'length';
  if (calls) return 'tool_calls';
  return (reason ?? 'stop') === 'stop' ? 'stop' : 'unknown';
}
