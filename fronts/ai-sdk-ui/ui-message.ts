import type { Question } from '../../protocol/event.ts';
import { isJsonObject, type JsonValue } from '../../protocol/json.ts';
import type { OpenItem } from '../../protocol/run-view.ts';

/*
 * The messages of `useChat` (ai@7): those that this folder makes, and those that a page posts. The types are defined
 * here, so that the package does not need `ai`; a test compares them with the AI SDK's types.
 */

/** The major version of the AI SDK that a page uses. `useChat` does not send it. */
export type AiSdkVersion = 6 | 7;

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

/**
 * The part `data-question` of a call whose tool asks people. The page answers with the call's output
 * `{ answers: { KEY: VALUE } }`, and declines with an error for it; the call's own output follows.
 */
export type QuestionData = {
  toolCallId: string;
  /** The tool's name. */
  name: string;
  digest: string;
  /** What the reader may answer and is open: nothing once it is answered. */
  questions: ShownQuestion[];
  /** Who answers the other questions of the call. */
  waitsFor?: string;
  /** Why the answer that the page has just given does not count. */
  fault?: string;
};

type ShownQuestion = Pick<Question, 'key' | 'message' | 'schema' | 'url' | 'expiresAt' | 'fault'>;

type Request = { id: string; requestReason?: string; approved?: never; reason?: never };
type Decision<Approved> = { id: string; requestReason?: string; approved: Approved; reason?: string };

export type ToolPart = {
  type: `tool-${string}`;
  toolCallId: string;
  input: unknown;
  providerExecuted?: boolean;
} & (
  | { state: 'input-available'; approval?: never }
  | { state: 'approval-requested'; approval: Request }
  | { state: 'approval-responded'; approval: Decision<true> | Decision<false> }
  | { state: 'output-available'; output: unknown; approval?: Decision<true> }
  | { state: 'output-error'; errorText: string; approval?: Decision<true> }
  | { state: 'output-denied'; approval: Decision<false> }
);

/** A part of a message. */
export type UIMessagePart =
  | { type: 'step-start' }
  | { type: 'text'; text: string; state?: 'done' }
  | { type: 'reasoning'; id: string; text: string; state: 'done' }
  | { type: 'source-url'; sourceId: string; url: string; title?: string }
  | { type: 'source-document'; sourceId: string; mediaType: string; title: string; filename?: string }
  | { type: 'file'; mediaType: string; url: string; filename?: string }
  | { type: 'data-run'; id: string; data: RunData }
  | { type: 'data-question'; id: string; data: QuestionData }
  | ToolPart;

/** A message of a chat, for `useChat({ messages })`. */
export type UIMessage = { id: string; role: 'user' | 'assistant'; parts: UIMessagePart[] };

export type PostedPart = { type: string; [member: string]: unknown };

export type PostedMessage = { id: string; role: 'user' | 'assistant' | 'system'; parts: PostedPart[] };

export function toolPartsOf(parts: readonly PostedPart[]): (PostedPart & { toolCallId: string })[] {
  return parts.filter(
    (part): part is PostedPart & { toolCallId: string } =>
      (part.type === 'dynamic-tool' || part.type.startsWith('tool-')) && typeof part.toolCallId === 'string',
  );
}

export type PostedApproval = { id: string; approved?: boolean; reason?: string };

export function approvalOf({ approval }: PostedPart): PostedApproval | undefined {
  if (!isJsonObject(approval) || typeof approval.id !== 'string') return undefined;
  const { id, approved, reason } = approval;
  return {
    id,
    ...(typeof approved === 'boolean' && { approved }),
    ...(typeof reason === 'string' && { reason }),
  };
}

/** A failure of the run or of a tool. `message` may contain secrets of the server. */
export type UIError = { type: 'run' | 'tool'; code: string; message: string; toolName?: string };

/** Returns the text that a page shows for a failure. */
export type DescribeError = (error: UIError) => string;

/** Who decides or answers what is open, if the reader of the message may not; `undefined` asks the reader. */
export type OthersFor = (open: OpenItem) => string | undefined;

/** The default texts for failures: what failed and its code, without messages of providers and tools. */
export function describeSafely({ type, code, toolName }: UIError): string {
  if (type === 'tool') return `The call of ${toolName ?? 'a tool'} failed.`;
  return `The run failed: ${/^[\w-]{1,60}$/.test(code) ? code : 'internal'}.`;
}
