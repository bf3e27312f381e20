import type { ProviderError } from '../../protocol/error.ts';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import type { ModelTurn, TurnDelta } from '../../protocol/turn.ts';
import { errorFromBody, malformedStream, type ProviderContext } from '../http/provider-errors.ts';
import { isBlank, type SseEvent } from '../http/read-sse.ts';
import { jsonIn, nonEmpty, objectOf, objectsOf, shorten, textIn } from '../turn/json-access.ts';
import { isErrorBody } from '../turn/single-turn.ts';
import { callStarted } from '../turn/turn-deltas.ts';
import type { ResponsesDialect } from './dialect.ts';
import { addToPart, type OutputSlot, OutputSlots, setPart } from './output-slots.ts';
import { isOurCall, reasoningText } from './turn.ts';

/**
 * The final response of a stream, and its output items: the response's own if it has any, else the streamed
 * ones.
 */
type EndedStream = { response: JsonObject; output: JsonObject[] };

/**
 * Yields the deltas of a streamed response and returns its turn, which `finish` makes of the final response, as soon as
 * that arrives. Throws a `ProviderError` for an error in the stream and for a truncated stream.
 */
export async function* readResponsesStream(
  events: AsyncIterable<SseEvent>,
  dialect: ResponsesDialect,
  context: ProviderContext,
  finish: (ended: EndedStream) => ModelTurn,
): AsyncGenerator<TurnDelta, ModelTurn, undefined> {
  const stream = new ResponsesStream(dialect);
  let count = 0;
  let last = 'none';
  for await (const { event: name, data } of events) {
    if (isBlank(data)) continue;
    const event = jsonIn(data);
    if (!isJsonObject(event)) throw malformedStream(`an event is not JSON: ${shorten(data, 80)}`, context);
    count += 1;
    last = nonEmpty(event.type) ?? name;
    switch (last) {
      case 'response.completed':
      case 'response.incomplete':
      case 'response.done': {
        const response = objectOf(event.response);
        const output = objectsOf(response.output);
        return finish({ response, output: output.length > 0 ? stream.asFinished(output) : stream.items() });
      }
      case 'response.failed':
      case 'response.cancelled':
        throw failedResponse(objectOf(event.response), context);
      case 'error':
        throw errorFromBody(event, context);
      default:
        if (event.type === undefined && isErrorBody(event)) throw errorFromBody(event, context);
        yield* stream.read(last, event);
    }
  }
  throw malformedStream(
    `truncated stream: it ended after ${count} events (the last: ${last}) without response.completed, response.incomplete or an error.`,
    context,
  );
}

/** Returns the error of a failed response. Its other members only repeat the request. */
export function failedResponse({ id, status, error }: JsonObject, context: ProviderContext): ProviderError {
  return errorFromBody({ id: id ?? null, status: status ?? null, error: error ?? null }, context);
}

class ResponsesStream {
  readonly #dialect: ResponsesDialect;
  readonly #slots = new OutputSlots();
  #calls = 0;
  #refusals = 0;
  /** Of each reasoning item without text: the number of refusals before it. */
  #sealed: number[] = [];
  /** Whether a refusal came after the last text. */
  #isRefused = false;

  constructor(dialect: ResponsesDialect) {
    this.#dialect = dialect;
  }

  items(): JsonObject[] {
    return this.#slots.items();
  }

  /** Restores the encrypted reasoning of the finished items: OpenAI encrypts it differently in each event. */
  asFinished(output: readonly JsonObject[]): JsonObject[] {
    return output.map((item, at) => {
      const finished = this.#slots.finishedAt(at);
      const encrypted = finished?.type === item.type ? nonEmpty(finished?.encrypted_content) : undefined;
      return encrypted === undefined ? item : { ...item, encrypted_content: encrypted };
    });
  }

  *read(type: string, event: JsonObject): Generator<TurnDelta, void> {
    switch (type) {
      case 'response.output_item.added':
      case 'response.output_item.done': {
        const item = objectOf(event.item);
        const slot = this.#slots.at(event, item);
        const isRepeated = slot.finished;
        slot.item = item;
        slot.finished = type === 'response.output_item.done';
        yield* this.#announce(slot);
        if (slot.finished && !isRepeated && item.type === 'reasoning' && isTextless(slot)) {
          this.#passRefusal();
          this.#sealed = [...this.#sealed, this.#refusals];
        }
        return;
      }
      case 'response.output_text.delta':
        addToPart(this.#slots.at(event), event, 'output_text', textIn(event.delta));
        yield* this.#delta('text', event);
        return;
      case 'response.output_text.done':
        setPart(this.#slots.at(event), event, 'output_text', textIn(event.text));
        return;
      case 'response.refusal.delta':
        addToPart(this.#slots.at(event), event, 'refusal', textIn(event.delta));
        this.#isRefused ||= textIn(event.delta) !== '';
        return;
      case 'response.refusal.done':
        setPart(this.#slots.at(event), event, 'refusal', textIn(event.refusal));
        this.#isRefused ||= textIn(event.refusal) !== '';
        return;
      case 'response.reasoning_summary_text.delta':
        addToPart(this.#slots.at(event), event, 'summary_text', textIn(event.delta));
        yield* this.#delta('reasoning', event);
        return;
      case 'response.reasoning_text.delta': {
        const slot = this.#slots.at(event);
        addToPart(slot, event, 'reasoning_text', textIn(event.delta));
        if (!hasSummary(slot)) yield* this.#delta('reasoning', event);
        return;
      }
      case 'response.function_call_arguments.delta':
      case 'response.custom_tool_call_input.delta':
        yield* this.#callDelta(this.#slots.at(event), type, textIn(event.delta));
        return;
      case 'response.function_call_arguments.done':
        this.#slots.at(event).written = textIn(event.arguments);
        return;
      case 'response.custom_tool_call_input.done':
        this.#slots.at(event).written = textIn(event.input);
        return;
    }
  }

  *#delta(type: 'text' | 'reasoning', event: JsonObject): Generator<TurnDelta, void> {
    const text = textIn(event.delta);
    if (text === '') return;
    this.#passRefusal();
    yield {
      type,
      text,
      ...(this.#refusals > 0 && { refusals: this.#refusals }),
      ...(this.#sealed.length > 0 && { sealed: this.#sealed }),
    };
  }

  #passRefusal(): void {
    if (this.#isRefused) this.#refusals += 1;
    this.#isRefused = false;
  }

  *#announce(slot: OutputSlot): Generator<TurnDelta, void> {
    if (slot.callIndex !== undefined || !isOurCall(slot.item, this.#dialect)) return;
    slot.callIndex = this.#calls++;
    yield callStarted(slot.callIndex, textIn(slot.item.name), textIn(slot.item.call_id));
  }

  /** Custom input becomes a JSON member of the arguments, so it can only be shown when it is complete. */
  *#callDelta(slot: OutputSlot, type: string, text: string): Generator<TurnDelta, void> {
    if (text === '') return;
    slot.pieces.push(text);
    if (slot.callIndex === undefined || type !== 'response.function_call_arguments.delta') return;
    yield { type: 'call_arguments', index: slot.callIndex, text };
  }
}

function isTextless({ item, parts }: OutputSlot): boolean {
  return reasoningText(item) === '' && [...parts.values()].every(({ pieces }) => pieces.join('') === '');
}

function hasSummary(slot: OutputSlot): boolean {
  return [...slot.parts.values()].some(part => part.type === 'summary_text');
}
