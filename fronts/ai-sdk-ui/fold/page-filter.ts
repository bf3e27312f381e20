import type { AiSdkVersion } from '../ai-sdk-6.ts';
import {
  type ContentChunk,
  isToolChunk,
  isToolPart,
  type ToolPart,
  type UIMessage,
  type UIMessagePart,
} from '../chunk.ts';
import { foldMessage, toolPartsOf } from './fold-message.ts';
import type { Placed } from './fold-run.ts';

/**
 * Selects the chunks that a page still needs for a message that it has posted. The AI SDK adds a response to the
 * existing message, so texts and inputs that the page has are left out and the outcomes of its calls are sent.
 *
 * F1 If the last step of the page differs from the run's, the step is sent again, after `reset-step`.
 * F2 The answer to an approval request uses the request id that the page has. It is left out if the page has given it.
 * F3 AI SDK 6 keeps the text of failed attempts before that of the run, and has an empty step at the end of some
 *    responses (`ChunksForAiSdk6`).
 */
export class PageFilter {
  readonly #approvals = new Map<string, ToolPart['approval']>();
  readonly #steps: number;
  readonly #isReset: boolean;

  constructor(page: UIMessage, placed: readonly Placed[], aiSdk: AiSdkVersion) {
    const parts = aiSdk === 6 ? withoutEmptySteps(page.parts) : page.parts;
    const has = countSteps(parts);
    const upTo = placed.filter(({ step }) => step <= has).map(({ chunk }) => chunk);
    const known = foldMessage(page.id, upTo);
    const texts = textsOf(lastStep(known.parts));
    const ofPage = textsOf(lastStep(parts));
    const compared = aiSdk === 6 ? ofPage.slice(Math.max(0, ofPage.length - texts.length)) : ofPage;
    this.#isReset = has > 0 && JSON.stringify(texts) !== JSON.stringify(compared);
    this.#steps = this.#isReset ? has - 1 : has;
    const kept = this.#isReset ? parts.slice(0, lastStepAt(parts)) : parts;
    for (const { toolCallId, approval } of toolPartsOf(kept)) this.#approvals.set(toolCallId, approval);
  }

  /** Returns the chunks to send first. */
  begin(): ContentChunk[] {
    return this.#isReset ? [{ type: 'reset-step' }] : [];
  }

  /** Returns the chunk as the page needs it; no chunk if the page already has it. */
  take({ step, chunk }: Placed): ContentChunk[] {
    if (isToolChunk(chunk)) return this.#takeTool(chunk);
    if (chunk.type === 'data-run' || chunk.type === 'data-progress') return [chunk];
    if (step <= this.#steps) return [];
    return this.#isReset && chunk.type === 'start-step' && step === this.#steps + 1 ? [] : [chunk];
  }

  #takeTool(chunk: Extract<ContentChunk, { toolCallId: string }>): ContentChunk[] {
    if (!this.#approvals.has(chunk.toolCallId)) return [chunk];
    const approval = this.#approvals.get(chunk.toolCallId);
    switch (chunk.type) {
      case 'tool-input-start':
      case 'tool-input-delta':
      case 'tool-input-available':
      case 'tool-input-error':
        return [];
      case 'tool-approval-request':
        if (approval !== undefined) return [];
        this.#approvals.set(chunk.toolCallId, { id: chunk.approvalId });
        return [chunk];
      case 'tool-approval-response':
        if (approval === undefined || isSameAnswer(approval, chunk)) return [];
        return [{ ...chunk, approvalId: approval.id }];
      default:
        return [chunk];
    }
  }
}

function isSameAnswer(
  { approved, reason }: NonNullable<ToolPart['approval']>,
  answer: { approved: boolean; reason?: string },
): boolean {
  return approved === answer.approved && (answer.reason === undefined || answer.reason === reason);
}

function withoutEmptySteps(parts: readonly UIMessagePart[]): UIMessagePart[] {
  return parts.filter(
    ({ type }, at) => type !== 'step-start' || (parts[at + 1]?.type ?? 'step-start') !== 'step-start',
  );
}

function lastStepAt(parts: readonly UIMessagePart[]): number {
  return parts.findLastIndex(({ type }) => type === 'step-start') + 1;
}

function lastStep(parts: readonly UIMessagePart[]): readonly UIMessagePart[] {
  return parts.slice(lastStepAt(parts));
}

function countSteps(parts: readonly UIMessagePart[]): number {
  return parts.filter(({ type }) => type === 'step-start').length;
}

/** Returns the texts and calls of parts, for comparison. */
function textsOf(parts: readonly UIMessagePart[]): string[][] {
  return parts.flatMap(part => {
    if (part.type === 'text' || part.type === 'reasoning') return [[part.type, part.text]];
    return isToolPart(part) && part.state === 'input-streaming' ? [['streaming']] : [];
  });
}
