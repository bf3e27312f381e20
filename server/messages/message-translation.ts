import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import type { WireEvent } from '../responses/wire/response-writer.ts';
import { describeFailure, describeInterruption } from './message-error.ts';
import { type MessageEnd, type MessageEvent, MessageWriter } from './message-writer.ts';
import { proofOf } from './thinking-proof.ts';
import { searchBlocksOf } from './web-search.ts';

/** How a request wants its message. */
type MessageOptions = {
  /** Whether thinking is part of the message: its text, only its signature, or nothing. */
  thinking: 'shown' | 'omitted' | 'none';
  /** The id of a call for the client; `place` counts the calls of the response from 0. */
  nameCall(responseId: string, place: number): string;
  /** The client's name of a tool. */
  toolName(name: string): string;
  requestId: string;
  /** Whether the client may repeat the request, because the failed response did nothing. */
  isRetryable(): boolean;
};

/**
 * Translates the events of a response into those of a message.
 *
 * A retried attempt needs no care: the response closes the text that went out and continues with new items, which are
 * new blocks here. In a stream the sealed reasoning may come after the text that follows it; then the signature is only
 * the id of the reasoning.
 */
export class MessageTranslation {
  readonly #options: MessageOptions;
  readonly #items = new Map<JsonValue, JsonObject>();
  #writer: MessageWriter | null = null;
  #responseId = '';
  #calls = 0;
  #searches = 0;
  #isRefused = false;

  constructor(options: MessageOptions) {
    this.#options = options;
  }

  /** The message of a finished response. */
  takeWhole(response: JsonObject): JsonObject {
    this.#begin(response);
    for (const item of objectsIn(response.output)) {
      const id = String(item.id);
      if (item.type === 'message') this.#known().text(id, textIn(item.content));
      if (item.type === 'reasoning' && textIn(item.summary) !== '') this.#think(id, textIn(item.summary));
      this.#finish(item);
    }
    this.#end(response);
    return this.#known().message;
  }

  /** Takes the next event of the response and returns the new events of the message. */
  take(event: WireEvent): MessageEvent[] {
    const failed = this.#read(event);
    const written = this.#writer?.drain() ?? [];
    return failed === undefined ? written : [...written, failed];
  }

  #read(event: WireEvent): MessageEvent | undefined {
    switch (event.type) {
      case 'response.created':
        this.#begin(objectIn(event.response));
        return undefined;
      case 'response.output_item.added':
        this.#items.set(event.output_index ?? null, objectIn(event.item));
        return undefined;
      case 'response.output_text.delta':
      case 'response.refusal.delta':
        this.#known().text(this.#keyOf(event), String(event.delta));
        return undefined;
      case 'response.reasoning_summary_text.delta':
        this.#think(this.#keyOf(event), String(event.delta));
        return undefined;
      case 'response.output_item.done':
        this.#finish(objectIn(event.item));
        return undefined;
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
        return this.#end(objectIn(event.response));
      case 'error':
        return this.#failed(describeInterruption(event));
      default:
        return undefined;
    }
  }

  #begin(response: JsonObject): void {
    this.#responseId = String(response.id);
    const id = this.#responseId.replace(/^resp_/, 'msg_');
    this.#writer = new MessageWriter({ id, model: response.model ?? null });
    this.#writer.begin();
  }

  #keyOf({ output_index: index = null }: WireEvent): string {
    return String(this.#items.get(index)?.id);
  }

  #think(id: string, text: string): void {
    const { thinking } = this.#options;
    if (thinking !== 'none') this.#known().think(id, thinking === 'shown' ? text : '', proofOf({ id }));
  }

  #finish(item: JsonObject): void {
    if (item.type === 'reasoning') this.#finishThinking(item);
    if (item.type === 'function_call' && item.status !== 'incomplete') this.#call(item);
    if (item.type === 'web_search_call') this.#search(item);
    if (item.type === 'message' && objectsIn(item.content).some(isRefusal)) this.#isRefused = true;
  }

  /** Signs the thinking, or writes thinking without text as a redacted block. */
  #finishThinking(item: JsonObject): void {
    if (this.#options.thinking === 'none') return;
    const hasText = Array.isArray(item.summary) && item.summary.length > 0;
    if (!hasText && item.encrypted_content !== undefined) this.#writeRedacted(proofOf(item));
    else if (this.#known().isOpen(String(item.id))) this.#known().prove(proofOf(item));
  }

  #writeRedacted(data: string): void {
    this.#known().whole(data, { type: 'redacted_thinking', data });
  }

  #search(item: JsonObject): void {
    const { id, query, result } = searchBlocksOf(item);
    const input = { query };
    this.#searches += 1;
    this.#known().call({
      type: 'server_tool_use',
      id,
      name: 'web_search',
      input,
      written: JSON.stringify(input),
    });
    this.#known().whole(`${id} result`, result);
  }

  /** Arguments that are not an object cannot be a call's input, so the client gets an empty one. */
  #call({ name, arguments: text }: JsonObject): void {
    const id = this.#options.nameCall(this.#responseId, this.#calls++);
    const input = parseInput(String(text));
    this.#known().call({
      id,
      name: this.#options.toolName(String(name)),
      input: input ?? {},
      written: input === undefined ? '{}' : String(text),
    });
  }

  /** The error event of a response without an answer. */
  #end(response: JsonObject): MessageEvent | undefined {
    const failure = describeFailure(response);
    if (failure !== undefined)
      return this.#failed(this.#options.isRetryable() ? overloaded(failure) : failure);
    this.#known().end({ stopReason: this.#stopReasonFor(response), usage: this.#usageOf(response) });
    return undefined;
  }

  #usageOf(response: JsonObject): JsonObject {
    const server_tool_use = { web_search_requests: this.#searches, web_fetch_requests: 0 };
    return { ...usageOf(response), ...(this.#searches > 0 ? { server_tool_use } : {}) };
  }

  #failed(error: JsonObject): MessageEvent {
    return { type: 'error', error, request_id: this.#options.requestId };
  }

  #stopReasonFor({ incomplete_details: details }: JsonObject): MessageEnd['stopReason'] {
    const { reason } = objectIn(details);
    if (reason === 'max_output_tokens') return 'max_tokens';
    if (reason === 'content_filter' || this.#isRefused) return 'refusal';
    return this.#calls > 0 ? 'tool_use' : 'end_turn';
  }

  #known(): MessageWriter {
    if (this.#writer === null) throw new Error('a response begins with response.created');
    return this.#writer;
  }
}

/** The type of a failure that an unstreamed request answers with the status 529. */
function overloaded(failure: JsonObject): JsonObject {
  return failure.type === 'api_error' ? { ...failure, type: 'overloaded_error' } : failure;
}

/** Anthropic counts cached tokens apart from other input tokens. */
function usageOf({ usage }: JsonObject): JsonObject {
  const {
    input_tokens: input,
    input_tokens_details: cache,
    output_tokens: output,
    output_tokens_details: more,
  } = objectIn(usage);
  const { cached_tokens: cached, cache_write_tokens: written } = objectIn(cache);
  const read = countIn(cached);
  const made = countIn(written);
  return {
    input_tokens: Math.max(0, countIn(input) - read - made),
    cache_creation_input_tokens: made,
    cache_read_input_tokens: read,
    output_tokens: countIn(output),
    output_tokens_details: { thinking_tokens: countIn(objectIn(more).reasoning_tokens) },
  };
}

function countIn(value: JsonValue | undefined): number {
  return typeof value === 'number' ? value : 0;
}

function objectsIn(value: JsonValue | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

/** The text of a list of parts, refusals included. */
function textIn(parts: JsonValue | undefined): string {
  return objectsIn(parts)
    .map(({ text, refusal }) => String(text ?? refusal ?? ''))
    .join('');
}

function isRefusal({ type }: JsonObject): boolean {
  return type === 'refusal';
}

function objectIn(value: JsonValue | undefined): JsonObject {
  return isJsonObject(value) ? value : {};
}

function parseInput(text: string): JsonObject | undefined {
  try {
    const input: unknown = JSON.parse(text);
    return isJsonObject(input) ? input : undefined;
  } catch {
    return undefined;
  }
}
