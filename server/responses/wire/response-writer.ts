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
 * The events of one response.
 *
 * W1 `sequence_number` counts from 0 without gaps; output indexes are given in the order items are opened.
 * W2 An item is in the output from its `output_item.done` on: the final object is what the events add up to.
 * W3 Exactly one terminal event, and nothing behind it.
 */
export class ResponseWriter {
  readonly head: ResponseHead;
  readonly #items: (JsonObject | null)[] = [];
  #written: WireEvent[] = [];
  #sequence = 0;
  #state: Omit<ResponseState, 'output'> = {
    status: 'in_progress',
    completedAt: null,
    incompleteReason: null,
    error: null,
    usage: null,
  };

  constructor(head: ResponseHead) {
    this.head = head;
  }

  get status(): ResponseStatus {
    return this.#state.status;
  }

  get isOver(): boolean {
    return this.#state.status !== 'in_progress';
  }

  /** The response as it stands. */
  get response(): JsonObject {
    return responseObject(this.head, { ...this.#state, output: this.output });
  }

  get output(): JsonObject[] {
    return this.#items.filter(item => item !== null);
  }

  /** What was written since it was last asked for. */
  drain(): WireEvent[] {
    const written = this.#written;
    this.#written = [];
    return written;
  }

  begin(): void {
    this.write('response.created', { response: this.response });
    this.write('response.in_progress', { response: this.response });
  }

  write(type: string, fields: JsonObject): void {
    if (this.isOver) return;
    this.#written.push({ type, sequence_number: this.#sequence++, ...fields });
  }

  /** Announces an item; gives its output index. */
  open(item: JsonObject): number {
    const index = this.#items.length;
    this.#items.push(null);
    this.write('response.output_item.added', { output_index: index, item });
    return index;
  }

  close(index: number, item: JsonObject): void {
    this.#items[index] = item;
    this.write('response.output_item.done', { output_index: index, item });
  }

  addUsage(usage: Usage): void {
    const { usage: before } = this.#state;
    const sum = (one: number | null, other: number | null) =>
      one === null || other === null ? (one ?? other) : one + other;
    const total: Usage =
      before === null
        ? usage
        : {
            inputTokens: before.inputTokens + usage.inputTokens,
            outputTokens: before.outputTokens + usage.outputTokens,
            cachedInputTokens: sum(before.cachedInputTokens, usage.cachedInputTokens),
            cacheWriteTokens: sum(before.cacheWriteTokens, usage.cacheWriteTokens),
            reasoningTokens: sum(before.reasoningTokens, usage.reasoningTokens),
          };
    this.#state = { ...this.#state, usage: total };
  }

  end(
    at: number,
    end: {
      status: Exclude<ResponseStatus, 'in_progress'>;
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
    // OpenAI has no event for a cancelled response: it ends as one that failed.
    this.write(`response.${status === 'cancelled' ? 'failed' : status}`, { response });
    this.#state = state;
  }
}
