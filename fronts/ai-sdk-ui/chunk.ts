import type { FinishReason, UIMessageChunk } from 'ai';
import type { ProgressData, QuestionData, RunData } from './ui-message.ts';

/* The chunks of the AI SDK's UI message stream (ai@7) that this folder sends. */

export type { FinishReason };

type Chunk = UIMessageChunk<unknown, { run: RunData; progress: ProgressData; question: QuestionData }>;
type Of<Type extends Chunk['type']> = Extract<Chunk, { type: Type }>;

/** A chunk of a tool call. An answer to an approval has the `toolCallId` too; the AI SDK finds its call by `approvalId`. */
export type ToolChunk = Extract<Chunk, { type: `tool-${string}` }> & { toolCallId: string };

export type ContentChunk =
  | Of<'start-step' | 'finish-step' | 'reset-step'>
  | Of<'text-start' | 'text-delta' | 'text-end' | 'reasoning-start' | 'reasoning-delta' | 'reasoning-end'>
  | Of<'source-url' | 'source-document' | 'file' | 'data-run' | 'data-progress' | 'data-question'>
  | ToolChunk;

export type ResponseChunk = Of<'start' | 'finish' | 'abort' | 'error'> | ContentChunk;

export function isToolChunk(chunk: ResponseChunk): chunk is ToolChunk {
  return 'toolCallId' in chunk;
}
