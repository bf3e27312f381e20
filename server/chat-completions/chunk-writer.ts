import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import { failureOf, RESPONSE_EVENTS, type StreamFormat } from '../responses/respond.ts';
import type { WireEvent } from '../responses/wire/response-writer.ts';
import { callPart, finishReasonOf, headOf, type NameCall, usageOf } from './completion.ts';
import { BETWEEN_TEXTS, citationsOf, clientCall } from './response-output.ts';

/** The format of a streamed completion. A format is for one response, because chunks depend on those before. */
export function chunkFormat(options: { nameCall: NameCall; includeUsage: boolean }): StreamFormat {
  const writer = new ChunkWriter(options);
  return {
    ...RESPONSE_EVENTS,
    frame: batch =>
      batch
        .flatMap(event => writer.take(event))
        .map(chunk => `data: ${JSON.stringify(chunk)}\n\n`)
        .join(''),
  };
}

/**
 * Translates the events of a response into the chunks of a completion.
 *
 * K1 The deltas add up to the message of `completionOf` and, before it, the text of failed attempts, because clients cannot
 *    take text back. The texts of two items are separated.
 * K2 A call is written once it is complete, because a failed attempt's calls must not reach the client.
 * K3 Exactly one chunk has a finish reason, unless the stream ends with an error.
 */
class ChunkWriter {
  readonly #nameCall: NameCall;
  readonly #includeUsage: boolean;
  #head: JsonObject = {};
  /** The item of the last text, of each kind. */
  readonly #lastItem: { content?: unknown; reasoning_content?: unknown; refusal?: unknown } = {};
  /** The length of the content so far, and where the text of its last item begins. */
  #content = { length: 0, start: 0 };
  #calls = 0;

  constructor({ nameCall, includeUsage }: { nameCall: NameCall; includeUsage: boolean }) {
    this.#nameCall = nameCall;
    this.#includeUsage = includeUsage;
  }

  /** The chunks for the next event; the last may be an error object. */
  take(event: WireEvent): JsonObject[] {
    const response = isJsonObject(event.response) ? event.response : {};
    switch (event.type) {
      case 'response.created':
        this.#head = headOf(response, 'chat.completion.chunk');
        return [this.#chunk({ role: 'assistant' })];
      case 'response.output_text.delta':
        return this.#text('content', event);
      case 'response.reasoning_summary_text.delta':
        return this.#text('reasoning_content', event);
      case 'response.refusal.delta':
        return this.#text('refusal', event);
      case 'response.output_item.done':
        return this.#item(isJsonObject(event.item) ? event.item : {});
      case 'response.completed':
      case 'response.incomplete':
        return this.#finish(response);
      case 'response.failed':
        return [errorOf(response)];
      case 'error':
        return isJsonObject(event.error) ? [{ error: event.error }] : [];
      default:
        return [];
    }
  }

  #text(field: 'content' | 'reasoning_content' | 'refusal', { item_id, delta }: WireEvent): JsonObject[] {
    if (typeof delta !== 'string' || delta === '') return [];
    const last = this.#lastItem[field];
    this.#lastItem[field] = item_id;
    const between = last !== undefined && last !== item_id ? BETWEEN_TEXTS : '';
    if (field === 'content') {
      const { length, start } = this.#content;
      const begun = last === item_id ? start : length + between.length;
      this.#content = { length: length + between.length + delta.length, start: begun };
    }
    return [this.#chunk({ [field]: between + delta })];
  }

  #item(item: JsonObject): JsonObject[] {
    if (item.type !== 'message') return this.#call(item);
    const citations = citationsOf(item, this.#content.start);
    return citations.length === 0 ? [] : [this.#chunk({ annotations: citations })];
  }

  #call(item: JsonObject): JsonObject[] {
    const call = clientCall(item);
    if (call === undefined) return [];
    const index = this.#calls++;
    const { type, name, written } = call;
    const begun = { index, id: this.#nameCall(call, index), type, ...callPart(type, '', name) };
    return [
      this.#chunk({ tool_calls: [begun] }),
      this.#chunk({ tool_calls: [{ index, ...callPart(type, written) }] }),
    ];
  }

  #finish(response: JsonObject): JsonObject[] {
    const { content, refusal } = this.#lastItem;
    const isEmpty = this.#calls === 0 && content === undefined && refusal === undefined;
    const last = this.#chunk(isEmpty ? { content: '' } : {}, finishReasonOf(response));
    if (!this.#includeUsage) return [last];
    return [last, { ...this.#head, choices: [], usage: usageOf(response) }];
  }

  #chunk(delta: JsonObject, finishReason: string | null = null): JsonObject {
    const choice = { index: 0, delta, logprobs: null, finish_reason: finishReason };
    return { ...this.#head, choices: [choice], ...(this.#includeUsage ? { usage: null } : {}) };
  }
}

/** The error object of a failed or cancelled response. OpenAI's clients throw it. */
function errorOf(response: JsonObject): JsonObject {
  const { message, type, code } = failureOf(response);
  return { error: { message, type, code, param: null } };
}
