import * as z from 'zod/mini';
import { contentSchema } from './schemas/content.ts';
import { lazyObject, lazySchema } from './schemas/lazy-schema.ts';

/**
 * What a model reads before the transcript: digests of the instructions and of the tools, in their order. `text`: the
 * instructions, unless the agent has them as a text.
 */
const headSchema = lazyObject(() => ({
  instructions: z.string(),
  text: z.exactOptional(contentSchema(z.string())),
  tools: z.string(),
  names: z.array(z.string()),
}));
export type Head = z.infer<typeof headSchema>;

/**
 * `first` is the head of the requests; `now` is what holds since other instructions or tools were appended. `output`: a
 * digest of the output schema, if the model reads it.
 */
const setupSchema = lazyObject(() => ({
  provider: z.string(),
  model: z.string(),
  first: headSchema,
  now: z.exactOptional(headSchema),
  output: z.exactOptional(z.string()),
}));
export type Setup = z.infer<typeof setupSchema>;

/**
 * The request of a turn, for comparing the next one with it. `items`: how many items of the run's own transcript it had;
 * with a `digest`, how many of those that `prepareTurn` chose. `setup` is left out while it stays the same. `voidTo`: the
 * last item before the latest break whose reasoning or appended setup no longer counts. `cause`: what has changed the
 * transcript since. `redactions`: how many values of its items had been redacted.
 */
export const sentSchema = lazyObject(() => ({
  items: z.int(),
  digest: z.exactOptional(z.string()),
  setup: z.exactOptional(setupSchema),
  voidTo: z.exactOptional(z.string()),
  cause: z.exactOptional(z.enum(['edit', 'compaction'])),
  redactions: z.exactOptional(z.int()),
}));
export type SentRequest = z.infer<typeof sentSchema>;
export type LastSent = SentRequest & { setup: Setup };

/** Why a request did not grow from the one before it. The first that applies counts. */
const breakCauseSchema = lazySchema(() =>
  z.enum(['fallback', 'edit', 'compaction', 'trim', 'instructions', 'tools', 'schema']),
);
export type BreakCause = z.infer<typeof breakCauseSchema>;

/** `lost`: the ids of the reasoning items that are left out from this request on, because the provider would refuse them. */
export const brokenSchema = lazyObject(() => ({ by: breakCauseSchema, lost: z.array(z.string()) }));
export type Broken = z.infer<typeof brokenSchema>;
