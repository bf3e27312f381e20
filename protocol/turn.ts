import * as z from 'zod/mini';
import type { Item } from './item.ts';
import type { JsonObject, JsonValue } from './json.ts';

/** `tool_calls` wins over a provider's `stop` when there are calls; tools the provider ran never make it. */
export const finishReasonSchema = z.enum([
  'stop',
  'tool_calls',
  'length',
  'content_filter',
  'pause',
  'error',
  'unknown',
]);
export type FinishReason = z.infer<typeof finishReasonSchema>;

/**
 * Tokens of one model call. `inputTokens` has all prompt tokens, cached and cache-write included;
 * `outputTokens` includes reasoning; the others are sub-counts. `null`: the provider did not say.
 */
export const usageSchema = z.object({
  inputTokens: z.number(),
  outputTokens: z.number(),
  cachedInputTokens: z.nullable(z.number()),
  cacheWriteTokens: z.nullable(z.number()),
  reasoningTokens: z.nullable(z.number()),
});
export type Usage = z.infer<typeof usageSchema>;

export type ToolChoice = 'auto' | 'required' | 'none' | { name: string };

/** A tool as the model is told of it. `inputSchema` is JSON Schema with `type: 'object'`. */
export type ToolDefinition = {
  name: string;
  description: string;
  inputSchema: JsonObject;
  strict?: boolean;
};

/** Sampling and length settings every provider has a form of. */
export type Settings = {
  temperature?: number;
  topP?: number;
  maxOutputTokens?: number;
  parallelToolCalls?: boolean;
  reasoningEffort?: string;
};

/** The schema the final answer must follow. */
export type OutputFormat = { name: string; schema: JsonObject; strict?: boolean };

/**
 * One model call. `toolChoice: 'none'` is an intent: each adapter sends its provider's legal form.
 * `continuation` is given only while the transcript up to the last model item, the model and the
 * instructions are what they were when a turn gave it: what follows that item is new to the provider.
 */
export type ModelRequest = {
  instructions?: string;
  transcript: readonly Item[];
  tools: readonly ToolDefinition[];
  toolChoice: ToolChoice;
  output?: OutputFormat;
  continuation?: JsonValue;
  settings: Settings;
  providerOptions?: JsonObject;
};

/**
 * A call as the model made it. `input` is the parsed arguments, always an object; when they are not
 * one, `error` says why and `input` is absent. `executedBy: 'provider'` calls are over already.
 */
export type ToolCall = {
  callId: string;
  name: string;
  arguments: string;
  input?: JsonValue;
  error?: string;
  executedBy: 'engine' | 'client' | 'provider';
};

/**
 * What one model call gave. `items` are its transcript entries, in the provider's order; `text` and
 * `reasoning` are their readable parts joined; `usage: null` means the provider did not say.
 */
export type ModelTurn = {
  text: string;
  reasoning: string;
  toolCalls: ToolCall[];
  finishReason: FinishReason;
  usage: Usage | null;
  model: string;
  continuation?: JsonValue;
  items: Item[];
};

/** What a stream gives as it comes; ends with exactly one `turn`. `index` counts the turn's calls from 0. */
export type TurnDelta =
  | { type: 'text' | 'reasoning'; text: string }
  | { type: 'call_started'; index: number; name: string }
  | { type: 'call_arguments'; index: number; text: string }
  | { type: 'turn'; turn: ModelTurn };
