import { canonicalJson, toJson } from '../../protocol/json.ts';
import { type ContentChunk, isToolChunk, type ToolChunk } from './chunk.ts';
import { foldMessage, lastStepAt } from './fold-message.ts';
import {
  type AiSdkVersion,
  approvalOf,
  type PostedApproval,
  type PostedMessage,
  type PostedPart,
  toolPartsOf,
} from './ui-message.ts';
import type { Placed } from './write-messages.ts';

/**
 * Selects the chunks that a page still needs for a message that it has posted. The AI SDK adds a response to the
 * existing message, so texts and inputs that the page has are left out and the outcomes of its calls are sent. A call
 * whose input was edited is sent again.
 *
 * F1 If the last step of the page differs from the run's, the step is sent again, after `reset-step`.
 * F2 The answer to an approval request uses the request id that the page has. It is left out if the page has given it.
 * F3 AI SDK 6 keeps the text of failed attempts before that of the run, and has an empty step at the end of some
 *    responses (`ChunksForAiSdk6`).
 */
export class PageFilter {
  readonly #calls = new Map<string, { input: string; approval: PostedApproval | undefined }>();
  readonly #replaced = new Set<ContentChunk>();
  readonly #steps: number;
  readonly #isReset: boolean;

  constructor(page: PostedMessage, placed: readonly Placed[], aiSdk: AiSdkVersion) {
    const parts = aiSdk === 6 ? withoutEmptySteps(page.parts) : page.parts;
    const has = parts.filter(({ type }) => type === 'step-start').length;
    const known = foldMessage(
      page.id,
      placed.flatMap(({ step, chunk }) => (step <= has ? [chunk] : [])),
    );
    const texts = textsOf(known.parts);
    const ofPage = textsOf(parts);
    const compared = aiSdk === 6 ? ofPage.slice(Math.max(0, ofPage.length - texts.length)) : ofPage;
    this.#isReset = has > 0 && JSON.stringify(texts) !== JSON.stringify(compared);
    this.#steps = this.#isReset ? has - 1 : has;
    const kept = this.#isReset ? parts.slice(0, lastStepAt(parts)) : parts;
    const inputs = new Map<string, ContentChunk>();
    for (const { chunk } of placed) {
      if (chunk.type !== 'tool-input-available') continue;
      const before = inputs.get(chunk.toolCallId);
      if (before !== undefined) this.#replaced.add(before);
      inputs.set(chunk.toolCallId, chunk);
    }
    for (const part of toolPartsOf(kept))
      this.#calls.set(part.toolCallId, { input: textOf(part.input), approval: approvalOf(part) });
  }

  begin(): ContentChunk[] {
    return this.#isReset ? [{ type: 'reset-step' }] : [];
  }

  /** The page's message has the `number`; it has nothing of later ones. */
  take({ message, step, chunk }: Placed, number: number): ContentChunk[] {
    if (isToolChunk(chunk)) return this.#takeTool(chunk);
    if (message > number || chunk.type === 'data-run' || chunk.type === 'data-progress') return [chunk];
    if (step <= this.#steps) return [];
    return this.#isReset && chunk.type === 'start-step' && step === this.#steps + 1 ? [] : [chunk];
  }

  #takeTool(chunk: ToolChunk): ContentChunk[] {
    const known = this.#calls.get(chunk.toolCallId);
    if (known === undefined) return [chunk];
    const { approval } = known;
    switch (chunk.type) {
      case 'tool-input-start':
      case 'tool-input-delta':
      case 'tool-input-error':
        return [];
      case 'tool-input-available': {
        const input = textOf(chunk.input);
        if (input === known.input || this.#replaced.has(chunk)) return [];
        this.#calls.set(chunk.toolCallId, { input, approval: undefined });
        return [chunk];
      }
      case 'tool-approval-request':
        if (approval !== undefined) return [];
        known.approval = { id: chunk.approvalId };
        return [chunk];
      case 'tool-approval-response':
        if (approval === undefined || isSameAnswer(approval, chunk)) return [];
        return [{ ...chunk, approvalId: approval.id }];
      default:
        return [chunk];
    }
  }
}

function textOf(input: unknown): string {
  return canonicalJson(toJson(input));
}

function isSameAnswer(
  { approved, reason }: PostedApproval,
  answer: { approved: boolean; reason?: string },
): boolean {
  return approved === answer.approved && (answer.reason === undefined || answer.reason === reason);
}

function withoutEmptySteps(parts: readonly PostedPart[]): PostedPart[] {
  return parts.filter(
    ({ type }, at) => type !== 'step-start' || (parts[at + 1]?.type ?? 'step-start') !== 'step-start',
  );
}

function textsOf(parts: readonly { type: string; text?: unknown; state?: unknown }[]): unknown[] {
  return parts.slice(lastStepAt(parts)).flatMap(({ type, text, state }) => {
    if (type === 'text' || type === 'reasoning') return [[type, text]];
    return state === 'input-streaming' ? [['streaming']] : [];
  });
}
