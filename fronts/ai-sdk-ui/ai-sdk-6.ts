import type { ResponseChunk } from './chunk.ts';

type ToolInput = Extract<ResponseChunk, { type: 'tool-input-available' }>;

const NEEDS = 'AI SDK 7 in the page. For a page with AI SDK 6, set the option aiSdk: 6 of createChatHandler.';

/**
 * Rewrites the chunks of one response for AI SDK 6 (read in ai@6.0.326). Its `useChat` fails on `reset-step`, on
 * `tool-approval-response` and on the finish reason `interrupted`.
 *
 * V1 It cannot drop parts: the text of a failed attempt stays, as a part of its own, and calls appear once they are
 *    complete.
 * V2 An empty step stands for `interrupted`: a page that posts finished calls by itself looks only at the last step.
 */
export class ChunksForAiSdk6 {
  readonly #texts = new Map<string, 'text' | 'reasoning'>();
  #state: ResponseChunk[] = [];
  readonly #inputs = new Map<string, ToolInput>();

  take(chunk: ResponseChunk): ResponseChunk[] {
    switch (chunk.type) {
      case 'tool-approval-response': {
        const input = chunk.approved ? this.#inputs.get(chunk.toolCallId) : undefined;
        return input === undefined ? [] : [input];
      }
      case 'tool-input-start':
      case 'tool-input-delta':
        return [];
      case 'reset-step':
        return this.#closeTexts();
      case 'finish':
        if (chunk.finishReason !== 'interrupted') return [chunk];
        // `useChat` shows the new step with the next chunk that changes a part.
        return [{ type: 'start-step' }, ...this.#state, { type: 'finish', finishReason: 'other' }];
      default:
        this.#follow(chunk);
        return [chunk];
    }
  }

  #follow(chunk: ResponseChunk): void {
    switch (chunk.type) {
      case 'text-start':
      case 'reasoning-start':
        this.#texts.set(chunk.id, chunk.type === 'text-start' ? 'text' : 'reasoning');
        return;
      case 'text-end':
      case 'reasoning-end':
        this.#texts.delete(chunk.id);
        return;
      case 'tool-input-available':
        this.#inputs.set(chunk.toolCallId, chunk);
        return;
      case 'data-run':
        this.#state = [chunk];
        return;
    }
  }

  #closeTexts(): ResponseChunk[] {
    const ends = [...this.#texts].map(([id, type]) => ({ type: `${type}-end` as const, id }));
    this.#texts.clear();
    return ends;
  }
}

/** The error that a page with AI SDK 6 shows has the text of the chunk. AI SDK 7 ignores the member. */
export function nameNeeds(chunk: ResponseChunk): ResponseChunk & { needs?: string } {
  const isNew =
    chunk.type === 'reset-step' ||
    chunk.type === 'tool-approval-response' ||
    (chunk.type === 'finish' && chunk.finishReason === 'interrupted');
  return isNew ? { ...chunk, needs: NEEDS } : chunk;
}
