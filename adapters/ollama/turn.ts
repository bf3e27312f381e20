import type { JsonObject } from '../../protocol/json.ts';
import type { FinishReason, ModelRequest, ModelTurn, TurnDelta } from '../../protocol/turn.ts';
import { malformedStream, type ProviderContext } from '../http/provider-errors.ts';
import { nonEmpty, objectOf, objectsOf, textIn } from '../turn/json-access.ts';
import type { AnswerReader } from '../turn/single-turn.ts';
import { CallAccumulator, toolCall } from '../turn/tool-calls.ts';
import { TurnBuilder } from '../turn/turn-builder.ts';
import { normalizeUsage } from '../turn/usage.ts';
import { keptCall, keptMore } from './messages.ts';

/** A part of the answer in its order; the parts of one kind are not next to each other. */
type Run = { type: 'text' | 'reasoning'; pieces: string[] };

/**
 * Reads a turn of `/api/chat`. A body that is not streamed is like a stream with one line.
 *
 * T1 Every call arrives complete. Parallel calls arrive one per line, all with index 0.
 * T2 The line with `done` ends the turn; only that line has the usage.
 */
export class OllamaTurn implements AnswerReader {
  readonly #request: ModelRequest;
  readonly #context: ProviderContext;
  readonly #runs: Run[] = [];
  readonly #calls = new CallAccumulator();
  #last: JsonObject = {};

  constructor(request: ModelRequest, context: ProviderContext) {
    this.#request = request;
    this.#context = context;
  }

  get progress(): 'open' | 'over' {
    return this.#last.done === true ? 'over' : 'open';
  }

  read(body: JsonObject): ModelTurn {
    this.push(body);
    if (this.progress === 'over') return this.end();
    throw malformedStream('the response is not marked as done', this.#context, body);
  }

  push(line: JsonObject): TurnDelta[] {
    this.#last = line;
    const message = objectOf(line.message);
    const deltas: TurnDelta[] = [];
    for (const [type, text] of [
      ['reasoning', textIn(message.thinking)],
      ['text', textIn(message.content)],
    ] as const) {
      if (text === '') continue;
      const last = this.#runs.at(-1);
      if (last?.type === type) last.pieces.push(text);
      else this.#runs.push({ type, pieces: [text] });
      deltas.push({ type, text });
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

  end(): ModelTurn {
    const turn = new TurnBuilder(this.#request);
    for (const { type, pieces } of this.#runs) {
      const opaque = turn[type] === '' ? undefined : keptMore();
      if (type === 'reasoning') turn.addReasoning(pieces.join(''), opaque);
      else turn.addText(pieces.join(''), opaque);
    }
    for (const { id, name, arguments: written } of this.#calls.calls()) {
      turn.addCall(toolCall(turn.nextCallId(id), name, written), id === null ? undefined : keptCall(id));
    }
    return turn.turn({
      finishReason: finishReasonOf(this.#last, { hasCalls: turn.toolCalls.length > 0 }),
      usage: normalizeUsage({ input: this.#last.prompt_eval_count, output: this.#last.eval_count }),
      model: nonEmpty(this.#last.model) ?? this.#context.model,
    });
  }
}

/** `stop` is also sent for calls, by design. `load` and `unload`: nothing to answer. Old servers send no reason. */
function finishReasonOf(
  { done_reason: reason }: JsonObject,
  { hasCalls }: { hasCalls: boolean },
): FinishReason {
  if (reason === 'length') return 'length';
  if (hasCalls) return 'tool_calls';
  return (reason ?? 'stop') === 'stop' ? 'stop' : 'unknown';
}
