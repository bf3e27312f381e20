import type { Part } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { Endpoint } from '../http/connection.ts';
import type { CallIdForm } from '../turn/tool-calls.ts';

/** How a provider of the Chat Completions API deviates. Every default is what most of them do. */
export type ChatDialect = Endpoint & {
  /** The role of instructions and of `developer` messages. Default: `system` for both. */
  role?: (role: 'system' | 'developer', model: string) => 'system' | 'developer' | 'user';
  /** The member that limits the output length. Default: `max_tokens`. */
  maxTokensMember?: (model: string) => 'max_tokens' | 'max_completion_tokens';
  /** The tool choice that forces a call of any tool. Default: `required`. */
  requiredChoice?: 'required' | 'any';
  /** How an output schema is enforced. Default: `json_schema`; the others add the schema to the instructions. */
  output?: OutputForm;
  /** Like `output`, for requests with tools. Default: `output`. */
  outputWithTools?: OutputForm;
  /** Converts a file of a user message. Default: OpenAI's `file` part. */
  filePart?: (file: Extract<Part, { type: 'file' }>) => JsonObject;
  /** The accepted form of call ids; other ids are replaced in each request. Default: all are accepted. */
  callIds?: CallIdForm;
  /** How reasoning is sent back. Default: `none`. */
  reasoning?: ReasoningForm;
  /** Body members that set the reasoning effort. Default: `{reasoning_effort}`. */
  effort?: (effort: string, model: string) => JsonObject;
  /** Further body members of a streaming request. Default: `{stream_options: {include_usage: true}}`. */
  streamMembers?: JsonObject;
  /** An assistant message separates a result from a user message; as the last one it has `prefix`. Default: `false`. */
  strictOrder?: boolean;
  /** Whether the stream may repeat the full text after its pieces. Default: `false`. */
  resendsText?: boolean;
  /** Whether the end of each message of the user is marked for the prompt cache. Default: `false`. */
  breakpoints?: boolean;
  /** Codes of errors that the sampled output caused, so that a retry can succeed. */
  retryableCodes?: readonly string[];
  /** Whether the provider can run its own tools within a turn. Default: `false`. */
  serverTools?: boolean;
};

/** An enforced schema, any JSON object, or only instructions. */
export type OutputForm = 'json_schema' | 'json_object' | 'instructions';

/**
 * How an assistant message carries its reasoning:
 * - `none`: not at all;
 * - `member`: in messages with calls, in the member it was received in;
 * - `required`: like `member`, but as `reasoning_content`, which every message with calls has, if only as an
 *   empty text;
 * - `details`: as `reasoning_details`;
 * - `content`: as thinking chunks of the content.
 */
type ReasoningForm = 'none' | 'member' | 'required' | 'details' | 'content';
