import { type ContentChunk, isToolChunk, isToolPart, type UIMessage, type UIMessagePart } from '../chunk.ts';
import { foldMessage, toolPartsOf } from './fold-message.ts';
import type { Placed } from './fold-run.ts';

/**
 * Selects the chunks that a page still needs for a message that it has posted. The AI SDK adds a response to the
 * existing message, so texts and inputs that the page has are left out and the outcomes of its calls are sent.
 *
 * F1 If the last step of the page differs from the run's, the step is sent again, after `reset-step`.
 * F2 The answer to an approval request uses the request id that the page has.
 */
export class PageFilter {
  readonly #approvals = new Map<string, string | undefined>();
  readonly #steps: number;
  readonly #isReset: boolean;

  constructor(page: UIMessage, placed: readonly Placed[]) {
    const has = countSteps(page.parts);
    const upTo = placed.filter(({ step }) => step <= has).map(({ chunk }) => chunk);
    const known = foldMessage(page.id, upTo);
    this.#isReset = has > 0 && textsOf(lastStep(known.parts)) !== textsOf(lastStep(page.parts));
    this.#steps = this.#isReset ? has - 1 : has;
    const kept = this.#isReset ? page.parts.slice(0, lastStepAt(page.parts)) : page.parts;
    for (const { toolCallId, approval } of toolPartsOf(kept)) this.#approvals.set(toolCallId, approval?.id);
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
    const approvalId = this.#approvals.get(chunk.toolCallId);
    switch (chunk.type) {
      case 'tool-input-start':
      case 'tool-input-delta':
      case 'tool-input-available':
      case 'tool-input-error':
        return [];
      case 'tool-approval-request':
        if (approvalId !== undefined) return [];
        this.#approvals.set(chunk.toolCallId, chunk.approvalId);
        return [chunk];
      case 'tool-approval-response':
        return approvalId === undefined ? [] : [{ ...chunk, approvalId }];
      default:
        return [chunk];
    }
  }
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
function textsOf(parts: readonly UIMessagePart[]): string {
  return JSON.stringify(
    parts.flatMap(part => {
      if (part.type === 'text' || part.type === 'reasoning') return [[part.type, part.text]];
      return isToolPart(part) && part.state === 'input-streaming' ? [['streaming']] : [];
    }),
  );
}
