import * as z from 'zod/mini';
import { isJsonObject, type JsonObject } from './json.ts';

/** What a run may spend. Counted over pauses, resumes and processes. */
export const limitsSchema = z.object({
  /** Model calls that completed. Default 20. */
  turns: z.int().check(z.positive()),
  /** Tool calls that were let through, but for those the client runs. Default 50. */
  toolCalls: z.int().check(z.nonnegative()),
  /** Input and output tokens of all turns. */
  tokens: z.exactOptional(z.number().check(z.positive())),
  /** In the unit of `prices`. */
  cost: z.exactOptional(z.number().check(z.positive())),
  /** Time in model calls and tools, in ms; resting and waiting to retry do not count. */
  activeMs: z.exactOptional(z.number().check(z.positive())),
  /** How often the same tool may fail on the same input. */
  repeatedFailures: z.exactOptional(z.int().check(z.positive())),
});
export type Limits = z.infer<typeof limitsSchema>;

/** Per million tokens, by the model's name. A price that is absent is the one of `input`. */
export const pricesSchema = z.record(
  z.string(),
  z.object({
    input: z.number().check(z.nonnegative()),
    output: z.number().check(z.nonnegative()),
    cachedInput: z.exactOptional(z.number().check(z.nonnegative())),
    cacheWrite: z.exactOptional(z.number().check(z.nonnegative())),
  }),
);
export type Prices = z.infer<typeof pricesSchema>;

export const toolChoiceSchema = z.union([
  z.enum(['auto', 'required', 'none']),
  z.object({ name: z.string() }),
]);

const { turns, toolCalls, tokens, activeMs } = limitsSchema.shape;

export const settingsSchema = z.object({
  temperature: z.exactOptional(z.number()),
  topP: z.exactOptional(z.number()),
  maxOutputTokens: z.exactOptional(z.int().check(z.positive())),
  parallelToolCalls: z.exactOptional(z.boolean()),
  reasoningEffort: z.exactOptional(z.string()),
});

/** What somebody set for the turns to come, instead of what the agent says. `tools` are names of the agent's tools. */
export const runParamsSchema = z.object({
  instructions: z.exactOptional(z.string()),
  settings: z.exactOptional(settingsSchema),
  toolChoice: z.exactOptional(toolChoiceSchema),
  tools: z.exactOptional(z.array(z.string())),
  providerOptions: z.exactOptional(z.custom<JsonObject>(isJsonObject)),
  /** Of the whole run, as ever: what it has spent already counts. */
  limits: z.exactOptional(
    z.object({
      turns: z.exactOptional(turns),
      toolCalls: z.exactOptional(toolCalls),
      tokens,
      activeMs,
    }),
  ),
});
export type RunParams = z.infer<typeof runParamsSchema>;

/** All the chart needs to know of an agent: plain data, fixed for the run. */
export const runConfigSchema = z.object({
  /** The model list in order of preference; the run falls back along it. */
  models: z.array(z.object({ provider: z.string(), model: z.string() })).check(z.minLength(1)),
  toolChoice: toolChoiceSchema,
  finalAnswer: z.enum(['live', 'held', 'separate']),
  onMessage: z.enum(['supersede', 'queue']),
  onLimit: z.enum(['answer', 'stop']),
  limits: limitsSchema,
  prices: z.exactOptional(pricesSchema),
  /** Attempts of one turn on one model, the first included. */
  attempts: z.int().check(z.positive()),
  /** Whether anything runs in `finishing`, and how often it may send the answer back. */
  finishers: z.boolean(),
  finisherRejections: z.int().check(z.nonnegative()),
  /**
   * The longest JSON text of one result, in bytes of UTF-8, that is kept in the journal; of a longer one the
   * journal has the head and the tail, and the run's blobs the whole. Default 1 MiB.
   */
  maxResultBytes: z.exactOptional(z.int().check(z.positive())),
  /** A paused run rests before it finishes too, so that somebody can look at its last turn and go on. */
  holdsAtEnd: z.exactOptional(z.boolean()),
});
export type RunConfig = z.infer<typeof runConfigSchema>;
