import type { Part } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { Endpoint } from '../http/connection.ts';

/**
 * What tells the providers of the Chat Completions API apart. What is left out is as most have it, so
 * that a new provider begins as an endpoint.
 */
export type ChatDialect = Endpoint & {
  /** Who speaks the instructions, and messages of the role `developer`. Default `system` for both. */
  role?: (role: 'system' | 'developer', model: string) => 'system' | 'developer' | 'user';
  /** What limits the length of an answer. Default `max_tokens`. */
  maxTokensMember?: (model: string) => 'max_tokens' | 'max_completion_tokens';
  /** How a call to some tool is demanded. Default `required`. */
  requiredChoice?: 'required' | 'any';
  /** How the provider is held to an output schema. Default `json_schema`; the others need it in words too. */
  output?: OutputForm;
  /** The same where there are tools. Default: `output`. */
  outputWithTools?: OutputForm;
  /** How a file of a user's message is sent. Default: OpenAI's `file`. */
  filePart?: (file: Extract<Part, { type: 'file' }>) => JsonObject;
  /** The ids of calls that are taken; others are exchanged for made ones in each request. Default: all. */
  callIds?: CallIdForm;
  /** How reasoning goes back. Default `none`. */
  reasoning?: ReasoningForm;
  /** The setting of reasoning effort. Default `{reasoning_effort}`. */
  effort?: (effort: string, model: string) => JsonObject;
  /** What a streaming request has beyond `stream`. Default `{stream_options: {include_usage: true}}`. */
  streamMembers?: JsonObject;
  /** An assistant has to speak between tools and users, and what it spoke last is a prefix. Default false. */
  strictOrder?: boolean;
  /** Whether text may come again as a whole behind its pieces. Default false. */
  resendsText?: boolean;
  /** Codes of errors that lie in what was sampled, so that another try can help. */
  retryableCodes?: readonly string[];
  /** Whether the provider runs tools of its own within a turn. Default false. */
  serverTools?: boolean;
};

/** By a schema it enforces, by JSON of any shape, or by words alone. */
export type OutputForm = 'json_schema' | 'json_object' | 'instructions';

/** `make` gives an id for 64 hex digits. */
export type CallIdForm = { fits: (id: string) => boolean; make: (digest: string) => string };

/**
 * How an assistant message has its reasoning: not at all; beside its calls, in the member it came in;
 * the same, and `reasoning_content` beside all calls, empty where there is none; as
 * `reasoning_details`; or as thinking chunks of its content.
 */
export type ReasoningForm = 'none' | 'member' | 'required' | 'details' | 'content';
