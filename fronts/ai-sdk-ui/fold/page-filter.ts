import { type ContentChunk, isToolChunk, isToolPart, type UIMessage, type UIMessagePart } from '../chunk.ts';
import { foldMessage, toolPartsOf } from './fold-message.ts';
import type { Placed } from './fold-run.ts';

/**
 * What a page lacks of a message that it has posted. The AI SDK adds what an answer says to the message that it has, so
 * the texts and inputs that it has are left out, and outcomes of its calls are sent.
 *
 * F1 If the last step of the page differs from the run's, the step is sent again, after `reset-step`.
 * F2 An answer to a request for approval names the request as the page has it.
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

  /** What to send before everything else. */
  begin(): ContentChunk[] {
    return this.#isReset ? [{ type: 'reset-step' }] : [];
  }

  /** The chunk as the page needs it; none if it has it. */
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

/** The texts and calls of parts, for comparison. */
function textsOf(parts: readonly UIMessagePart[]): string {
  return JSON.stringify(
    parts.flatMap(part => {
      if (part.type === 'text' || part.type === 'reasoning') return [[part.type, part.text]];
      return isToolPart(part) && part.state === 'input-streaming' ? [['streaming']] : [];
    }),
  );
}
