import * as z from 'zod/mini';
import type { Item, ReasoningItem } from './item.ts';
import type { JsonObject, JsonValue } from './json.ts';
import { lazyObject, lazySchema } from './schemas/lazy-schema.ts';

/** Why a turn ended: `tool_calls` if it has calls, even if the provider reports `stop`. Provider tools do not count. */
export const finishReasonSchema = lazySchema(() =>
  z.enum(['stop', 'tool_calls', 'length', 'content_filter', 'pause', 'error', 'unknown']),
);
export type FinishReason = z.infer<typeof finishReasonSchema>;

/**
 * Tokens of one model call. `inputTokens` counts all prompt tokens, including cached and cache-write tokens;
 * `outputTokens` includes reasoning; the others are sub-counts. `null`: not reported by the provider.
 */
export const usageSchema = lazyObject(() => ({
  inputTokens: z.number(),
  outputTokens: z.number(),
  cachedInputTokens: z.nullable(z.number()),
  cacheWriteTokens: z.nullable(z.number()),
  reasoningTokens: z.nullable(z.number()),
  /** The engine estimated it, or a part of this sum, because the provider reported nothing. */
  estimated: z.exactOptional(z.literal(true)),
}));
export type Usage = z.infer<typeof usageSchema>;

/** Which tools the model may or must call. */
export const toolChoiceSchema = lazySchema(() =>
  z.union([z.enum(['auto', 'required', 'none']), z.object({ name: z.string() })]),
);
export type ToolChoice = z.infer<typeof toolChoiceSchema>;

/** The namespace of a tool, and its name there. */
type ToolMember = { namespace: string; name: string };

/** A tool as described to the model. `inputSchema` is JSON Schema with `type: 'object'`. */
export type ToolDefinition = {
  name: string;
  description: string;
  inputSchema: JsonObject;
  strict?: boolean;
  /**
   * The tool's input is a text: adapters with `customTools` declare it as such, with the provider's `format`. To other
   * adapters it is a function of `inputSchema`, which has the text as `input`. A call's arguments are `{ input }`.
   */
  custom?: { format?: JsonObject };
  /**
   * Only for adapters with `toolSearch`: the provider keeps the tool out of the prompt until the model has found it, with
   * the provider's search, or with one of the tools (`client`), whose results refer to it.
   */
  deferred?: boolean | 'client';
  /** Of a deferred tool: the label of its tool server, if it has one. */
  server?: string;
  /** The tool in a namespace, for models that know them. Others know it by `name`. */
  member?: ToolMember;
};

/** Sampling and length settings that every provider supports in some form. */
export const settingsSchema = lazyObject(() => ({
  temperature: z.exactOptional(z.number()),
  topP: z.exactOptional(z.number()),
  maxOutputTokens: z.exactOptional(z.int().check(z.positive())),
  parallelToolCalls: z.exactOptional(z.boolean()),
  reasoningEffort: z.exactOptional(z.string()),
}));
/** Sampling and length settings that every provider supports in some form. */
export type Settings = z.infer<typeof settingsSchema>;

export type OutputFormat = { name: string; schema: JsonObject; strict?: boolean };

/**
 * One model call. Each adapter translates `toolChoice: 'none'` to a form that its provider accepts. `continuation` is
 * present only if the model, the instructions and the transcript up to the last model item are unchanged since the turn
 * that returned it: only the items after that one are new to the provider. `afterDraft`: the turn before was the draft of
 * a `separate` answer, which is not in the transcript.
 */
export type ModelRequest = {
  instructions?: string;
  transcript: readonly Item[];
  tools: readonly ToolDefinition[];
  /** The tools in namespaces by their names, also those that the transcript declares. */
  members?: Readonly<Record<string, ToolMember>>;
  toolChoice: ToolChoice;
  output?: OutputFormat;
  continuation?: JsonValue;
  afterDraft?: true;
  settings: Settings;
  providerOptions?: JsonObject;
};

/**
 * A call as the model made it. `input` is the parsed arguments, always an object; if they are invalid, `error` holds
 * the reason and `input` is absent. Calls with `executedBy: 'provider'` are already complete.
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
 * The result of one model call. `items` are its transcript items, in the provider's order; `text` and `reasoning` are
 * their joined readable parts; `usage` is `null` if the provider did not report it. `dropped` has the ids of items of the
 * transcript that the provider says it left out of what the model read, `appliedEdits` what it says it cleared because the
 * request asked for that, in Anthropic's form.
 */
export type ModelTurn = {
  text: string;
  reasoning: string;
  toolCalls: ToolCall[];
  finishReason: FinishReason;
  usage: Usage | null;
  model: string;
  continuation?: JsonValue;
  dropped?: string[];
  appliedEdits?: JsonObject[];
  items: Item[];
};

/** What only the complete turn has: `refusals` before the piece, and those before each sealed reasoning. */
export type Skipped = { refusals?: number; sealed?: readonly number[] };

/**
 * A piece of a stream, which ends with exactly one `turn`. `index` counts the turn's calls from 0. `callId` is the
 * call's id in the turn, from an adapter that knows it before the call is complete.
 */
export type TurnDelta =
  | ({ type: 'text' | 'reasoning'; text: string } & Skipped)
  /** Reasoning that is complete, as the turn will have it, before what follows it. Adapters may leave it out. */
  | { type: 'reasoning_ended'; item: ReasoningItem }
  | { type: 'call_started'; index: number; name: string; callId?: string }
  | { type: 'call_arguments'; index: number; text: string }
  | { type: 'turn'; turn: ModelTurn };
