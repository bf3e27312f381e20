import * as z from 'zod/mini';
import type { JsonValue } from './json.ts';
import { contentSchema } from './schemas/content.ts';
import { lazyObject, lazySchema, lazyUnion } from './schemas/lazy-schema.ts';

const json = lazySchema(() => z.custom<JsonValue>(value => value !== undefined));
const contentText = lazySchema(() => contentSchema(z.string()));
const contentJson = lazySchema(() => contentSchema(json));
const id = lazySchema(() => z.exactOptional(z.string().check(z.minLength(1))));

/**
 * Data that must go back to the provider unchanged: Anthropic signatures, OpenAI encrypted reasoning, Gemini thought
 * signatures. An adapter sends it only if `provider` is its own.
 */
const opaqueSchema = lazyObject(() => ({ provider: z.string(), data: contentJson }));
export type Opaque = z.infer<typeof opaqueSchema>;
const opaque = lazySchema(() => z.exactOptional(opaqueSchema));

const partSchema = lazyUnion(() => [
  z.object({
    type: z.literal('text'),
    text: contentText,
    annotations: z.exactOptional(z.array(contentJson)),
  }),
  /** `url` may be a `data:` URL. `detail`: the resolution at which the model sees it, in OpenAI's words. */
  z.object({ type: z.literal('image'), url: contentText, detail: z.exactOptional(z.string()) }),
  z.object({
    type: z.literal('file'),
    url: contentText,
    name: z.exactOptional(contentText),
    mediaType: z.exactOptional(z.string()),
  }),
]);
export type Part = z.infer<typeof partSchema>;

const messageSchema = lazyObject(() => ({
  type: z.literal('message'),
  id,
  role: z.enum(['user', 'assistant', 'system', 'developer']),
  content: z.array(partSchema),
  /** Not written by the role: the outcome of background work that this call started. The first part says so in words. */
  outcomeOf: z.exactOptional(
    z.object({
      callId: z.string().check(z.minLength(1)),
      /** The run that did the work; absent for work of a client. */
      runId: z.exactOptional(z.string()),
      isError: z.exactOptional(z.literal(true)),
    }),
  ),
  opaque,
}));
export type MessageItem = z.infer<typeof messageSchema>;

const reasoningSchema = lazyObject(() => ({ type: z.literal('reasoning'), id, text: contentText, opaque }));
export type ReasoningItem = z.infer<typeof reasoningSchema>;

/** A tool call. `arguments` is the model's text and may be invalid JSON. */
const toolCallItemSchema = lazyObject(() => ({
  type: z.literal('tool_call'),
  id,
  callId: z.string().check(z.minLength(1)),
  name: z.string(),
  arguments: contentText,
  opaque,
}));
export type ToolCallItem = z.infer<typeof toolCallItemSchema>;

/** Refers to a large result, whose JSON text is stored among the run's blobs. */
export const blobSchema = lazyObject(() => ({
  /** SHA-256 of the output's canonical JSON, as 64 hex digits. */
  digest: z.string().check(z.regex(/^[0-9a-f]{64}$/)),
  /** The size of that JSON text in UTF-8. */
  bytes: z.int().check(z.nonnegative()),
}));
export type BlobReference = z.infer<typeof blobSchema>;

/** What does the work of a call in the background: another run, or the client. */
export const receiptSchema = lazySchema(() => z.enum(['run', 'client']));

/**
 * The result of a tool call. The model reads `shown`, if present, instead of an `output` that is too long for it. With
 * `blob`, `output` holds only the head and the tail of a larger result, with a note between them. With `receipt`, `output` says
 * only that the work has begun.
 */
const toolResultItemSchema = lazyObject(() => ({
  type: z.literal('tool_result'),
  id,
  callId: z.string().check(z.minLength(1)),
  output: contentJson,
  isError: z.boolean(),
  shown: z.exactOptional(contentText),
  blob: z.exactOptional(blobSchema),
  receipt: z.exactOptional(receiptSchema),
}));
export type ToolResultItem = z.infer<typeof toolResultItemSchema>;

/**
 * An item that the provider executed or needs back unchanged; `kind` is its name there, e.g. `web_search_call`. `setup`:
 * instructions or tools that an adapter appended.
 */
const providerItemSchema = lazyObject(() => ({
  type: z.literal('provider_item'),
  id,
  kind: z.string(),
  opaque: opaqueSchema,
}));
export type ProviderItem = z.infer<typeof providerItemSchema>;

/** Control items are for clients, e.g. of the gateway; they are never sent to a model. */
const controlItemSchema = lazyUnion(() => [
  z.object({
    type: z.literal('approval_request'),
    id,
    callId: z.string(),
    name: z.string(),
    arguments: contentText,
    label: z.exactOptional(z.string()),
  }),
  z.object({
    type: z.literal('approval_response'),
    id,
    callId: z.string(),
    approve: z.boolean(),
    reason: z.exactOptional(contentText),
  }),
  /** `error`: why listing the server's tools failed. */
  z.object({
    type: z.literal('tool_list'),
    id,
    label: z.string(),
    tools: z.array(json),
    error: z.exactOptional(z.string()),
  }),
]);
export type ControlItem = z.infer<typeof controlItemSchema>;

/** One item of a transcript. */
export const itemSchema = lazyUnion(() => [
  messageSchema,
  reasoningSchema,
  toolCallItemSchema,
  toolResultItemSchema,
  providerItemSchema,
  controlItemSchema,
]);
export type Item = z.infer<typeof itemSchema>;
