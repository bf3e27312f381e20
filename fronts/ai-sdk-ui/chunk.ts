import type { JsonValue } from '../../protocol/json.ts';

/*
 * The AI SDK's UI message stream (ai@7): the chunks that this folder sends, and the messages that `useChat` builds from
 * them. The types are defined here, so that the package does not depend on `ai`; a test compares them with the AI SDK's
 * types.
 */

type FinishReason = 'stop' | 'length' | 'content-filter' | 'tool-calls' | 'error' | 'interrupted' | 'other';

/** The part `data-run` of every assistant message: the message's run and its state. */
export type RunData = {
  runId: string;
  /** The path of the chart's state, such as `resting.awaitingApproval`. */
  state: string;
  status: 'running' | 'waiting' | 'finished' | 'failed' | 'cancelled';
  /** Why the run waits. */
  why?: string;
  /** The code of a failed run's error. */
  error?: string;
};

/** The transient part `data-progress`: the progress that a running tool reports. */
export type ProgressData = { toolCallId: string; data: JsonValue };

/** A chunk of a tool call. */
export type ToolChunk =
  | { type: 'tool-input-start'; toolCallId: string; toolName: string }
  | { type: 'tool-input-delta'; toolCallId: string; inputTextDelta: string }
  | {
      type: 'tool-input-available';
      toolCallId: string;
      toolName: string;
      input: JsonValue;
      providerExecuted?: boolean;
      dynamic?: boolean;
    }
  | { type: 'tool-input-error'; toolCallId: string; toolName: string; input: JsonValue; errorText: string }
  | { type: 'tool-approval-request'; toolCallId: string; approvalId: string; reason?: string }
  /** `toolCallId` is an addition: the AI SDK finds the call by `approvalId`. */
  | {
      type: 'tool-approval-response';
      toolCallId: string;
      approvalId: string;
      approved: boolean;
      reason?: string;
    }
  | { type: 'tool-output-available'; toolCallId: string; output: JsonValue; providerExecuted?: boolean }
  | { type: 'tool-output-error'; toolCallId: string; errorText: string }
  | { type: 'tool-output-denied'; toolCallId: string };

/** A chunk of a message's content. */
export type ContentChunk =
  | { type: 'start-step' | 'finish-step' | 'reset-step' }
  | { type: 'text-start' | 'text-end' | 'reasoning-start' | 'reasoning-end'; id: string }
  | { type: 'text-delta' | 'reasoning-delta'; id: string; delta: string }
  | { type: 'source-url'; sourceId: string; url: string; title?: string }
  | { type: 'source-document'; sourceId: string; mediaType: string; title: string; filename?: string }
  | { type: 'file'; url: string; mediaType: string }
  | { type: 'data-run'; id: string; data: RunData }
  | { type: 'data-progress'; data: ProgressData; transient: true }
  | ToolChunk;

/** A chunk of the stream. */
export type UIMessageChunk =
  | { type: 'start'; messageId: string }
  | { type: 'finish'; finishReason: FinishReason }
  | { type: 'abort'; reason?: string }
  | { type: 'error'; errorText: string }
  | ContentChunk;

type Approval = {
  approval?: { id: string; requestReason?: string; approved?: boolean; reason?: string };
};

/** The part of a tool call. */
export type ToolPart = Approval & {
  type: `tool-${string}` | 'dynamic-tool';
  toolCallId: string;
  toolName?: string;
  state:
    | 'input-streaming'
    | 'input-available'
    | 'approval-requested'
    | 'approval-responded'
    | 'output-available'
    | 'output-error'
    | 'output-denied';
  input?: JsonValue;
  rawInput?: string;
  output?: JsonValue;
  errorText?: string;
  providerExecuted?: boolean;
};

/** A part of a message. */
export type UIMessagePart =
  | { type: 'step-start' }
  | { type: 'text'; text: string; state?: 'streaming' | 'done' }
  | { type: 'reasoning'; id: string; text: string; state?: 'streaming' | 'done' }
  | { type: 'source-url'; sourceId: string; url: string; title?: string }
  | { type: 'source-document'; sourceId: string; mediaType: string; title: string; filename?: string }
  | { type: 'file'; mediaType: string; url: string; filename?: string }
  | { type: 'data-run'; id: string; data: RunData }
  | ToolPart;

/** A message of a chat, as `useChat` has it. */
export type UIMessage = { id: string; role: 'user' | 'assistant'; parts: UIMessagePart[] };

/** Whether a part belongs to a tool call. */
export function isToolPart(part: { type: string }): part is ToolPart {
  return part.type === 'dynamic-tool' || part.type.startsWith('tool-');
}

/** Whether a chunk belongs to a tool call. */
export function isToolChunk(chunk: UIMessageChunk): chunk is ToolChunk {
  return 'toolCallId' in chunk;
}
