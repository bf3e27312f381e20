import type { JsonObject } from '../../../protocol/json.ts';
import type { Usage } from '../../../protocol/turn.ts';
import {
  type ResponseHead,
  type ResponseState,
  type ResponseStatus,
  responseObject,
} from './response-object.ts';

/** One server-sent event of a response. */
export type WireEvent = JsonObject & { type: string; sequence_number: number };

/**
 * Writes the events of one response.
 *
 * W1 `sequence_number` counts up without gaps; output indexes follow the order in which items are opened.
 * W2 An item is part of the output once its `output_item.done` is written, so the final object matches the events.
 * W3 There is exactly one terminal event, and it is the last.
 */
export class ResponseWriter {
  readonly head: ResponseHead;
  readonly #items: (JsonObject | null)[] = [];
  #written: WireEvent[] = [];
  #sequence: number;
  #state: Omit<ResponseState, 'output'> = {
    status: 'in_progress',
    completedAt: null,
    incompleteReason: null,
    error: null,
    usage: null,
  };

  /** `firstNumber` is the `sequence_number` of the first event. */
  constructor(head: ResponseHead, firstNumber: number) {
    this.head = head;
    this.#sequence = firstNumber;
    if (head.spec.request.background === true) this.#state = { ...this.#state, status: 'queued' };
  }

  /** The current status. */
  get status(): ResponseStatus {
    return this.#state.status;
  }

  /** Whether the terminal event was written. */
  get isOver(): boolean {
    return this.#state.status !== 'in_progress' && this.#state.status !== 'queued';
  }

  /** The current response object. */
  get response(): JsonObject {
    return responseObject(this.head, { ...this.#state, output: this.output });
  }

  /** The closed items, in order. */
  get output(): JsonObject[] {
    return this.#items.filter(item => item !== null);
  }

  /** Returns and clears the events written since the last call. */
  drain(): WireEvent[] {
    const written = this.#written;
    this.#written = [];
    return written;
  }

  /** Writes the first events: two, or three for a background response. */
  begin(): void {
    this.write('response.created', { response: this.response });
    if (this.status === 'queued') {
      this.write('response.queued', { response: this.response });
      this.#state = { ...this.#state, status: 'in_progress' };
    }
    this.write('response.in_progress', { response: this.response });
  }

  /** Writes an event; does nothing after the terminal event. */
  write(type: string, fields: JsonObject): void {
    if (this.isOver) return;
    this.#written.push({ type, sequence_number: this.#sequence++, ...fields });
  }

  /** Announces an item and returns its output index. */
  open(item: JsonObject): number {
    const index = this.#items.length;
    this.#items.push(null);
    this.write('response.output_item.added', { output_index: index, item });
    return index;
  }

  /** Completes an item. */
  close(index: number, item: JsonObject): void {
    this.#items[index] = item;
    this.write('response.output_item.done', { output_index: index, item });
  }

  /** Adds the usage of a turn. */
  addUsage(usage: Usage): void {
    const { usage: before } = this.#state;
    const total = before === null ? usage : addUp(before, usage);
    this.#state = { ...this.#state, usage: total };
  }

  /** Writes the terminal event; `at` is in ms since the epoch. */
  end(
    at: number,
    end: {
      status: Exclude<ResponseStatus, 'queued' | 'in_progress'>;
      incompleteReason?: string | null;
      error?: ResponseState['error'];
    },
  ): void {
    if (this.isOver) return;
    const { status, incompleteReason = null, error = null } = end;
    const state = {
      ...this.#state,
      status,
      incompleteReason,
      error,
      completedAt: status === 'completed' ? at : null,
    };
    const response = responseObject(this.head, { ...state, output: this.output });
    // OpenAI has no event for a cancelled response, so it ends with the one for a failed response.
    this.write(`response.${status === 'cancelled' ? 'failed' : status}`, { response });
    this.#state = state;
  }
}

/** Adds two usages. An unknown count does not change the other. */
function addUp(one: Usage, other: Usage): Usage {
  const sum = (a: number | null, b: number | null) => (a === null || b === null ? (a ?? b) : a + b);
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    cachedInputTokens: sum(one.cachedInputTokens, other.cachedInputTokens),
    cacheWriteTokens: sum(one.cacheWriteTokens, other.cacheWriteTokens),
    reasoningTokens: sum(one.reasoningTokens, other.reasoningTokens),
  };
}
