import type { Item } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { FinishReason, ModelRequest, ModelTurn, ToolCall, TurnDelta } from '../../protocol/turn.ts';
import { nonEmpty, objectOf, objectsOf, textIn } from '../turn/json-access.ts';
import { CallAccumulator, CallIds, toolCall } from '../turn/tool-calls.ts';
import { normalizeUsage } from '../turn/usage.ts';
import { keptCall } from './messages.ts';

/**
 * Reads a turn of `/api/chat`. A body that is not streamed is like a stream with one line.
 *
 * T1 Every call arrives complete. Parallel calls arrive one per line, all with index 0.
 * T2 The line with `done` ends the turn; only that line has the usage.
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

  /** Whether the last line ended the turn. */
  get isDone(): boolean {
    return this.#last.done === true;
  }

  /** Adds a line. Returns the deltas to show to a reader of the stream. */
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

  /** Returns the completed turn. */
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
      finishReason: finishReasonOf(this.#last, { hasCalls: toolCalls.length > 0 }),
      usage: normalizeUsage({ input: this.#last.prompt_eval_count, output: this.#last.eval_count }),
      model: nonEmpty(this.#last.model) ?? this.#model,
      items,
    };
  }
}

/**
 * Ollama sends `stop` also for calls, by design. `load` and `unload` mean that there was nothing to answer.
 * Old servers send no reason.
 */
function finishReasonOf(
  { done_reason: reason }: JsonObject,
  { hasCalls }: { hasCalls: boolean },
): FinishReason {
  if (reason === 'length') return 'length';
  if (hasCalls) return 'tool_calls';
  return (reason ?? 'stop') === 'stop' ? 'stop' : 'unknown';
}
