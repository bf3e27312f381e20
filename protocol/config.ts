import * as z from 'zod/mini';
import { isJsonObject, type JsonObject } from './json.ts';
import { contentSchema } from './schemas/content.ts';
import { lazyObject, lazySchema } from './schemas/lazy-schema.ts';
import { settingsSchema, toolChoiceSchema } from './turn.ts';

/** What a run may spend. Pauses, resumes and new processes do not reset the counts. */
export const limitsSchema = lazyObject(() => ({
  /** Completed model calls. Default 20. */
  turns: z.int().check(z.positive()),
  /** Tool calls that the engine ran; client tools do not count. Default 50. */
  toolCalls: z.int().check(z.nonnegative()),
  /** Input and output tokens of all turns. */
  tokens: z.exactOptional(z.number().check(z.positive())),
  /** In the unit of `prices`. */
  cost: z.exactOptional(z.number().check(z.positive())),
  /** Time spent in model calls and tools, in ms, without rests and waits before retries. */
  activeMs: z.exactOptional(z.number().check(z.positive())),
  /** How often the same tool may fail on the same input. */
  repeatedFailures: z.exactOptional(z.int().check(z.positive())),
}));
export type Limits = z.infer<typeof limitsSchema>;
export const DEFAULT_LIMITS: Limits = { turns: 20, toolCalls: 50 };

/** Prices per million tokens. A missing one defaults to `input`. */
export const priceSchema = lazyObject(() => ({
  input: z.number().check(z.nonnegative()),
  output: z.number().check(z.nonnegative()),
  cachedInput: z.exactOptional(z.number().check(z.nonnegative())),
  cacheWrite: z.exactOptional(z.number().check(z.nonnegative())),
}));
/** By model name. */
const pricesSchema = lazySchema(() => z.record(z.string(), priceSchema));
export type Prices = z.infer<typeof pricesSchema>;

export const paramLimitsSchema = lazySchema(() => {
  const { turns, toolCalls, tokens, activeMs } = limitsSchema.shape;
  return z.object({
    turns: z.exactOptional(turns),
    toolCalls: z.exactOptional(toolCalls),
    tokens,
    activeMs,
  });
});

/** Overrides of the agent's configuration for the following turns. `tools` are names of the agent's tools. */
export const runParamsSchema = lazyObject(() => ({
  instructions: z.exactOptional(contentSchema(z.string())),
  settings: z.exactOptional(settingsSchema),
  toolChoice: z.exactOptional(toolChoiceSchema),
  tools: z.exactOptional(z.array(z.string())),
  providerOptions: z.exactOptional(z.custom<JsonObject>(isJsonObject)),
  /** Limits of the entire run: what the run has already spent counts. */
  limits: z.exactOptional(paramLimitsSchema),
}));
export type RunParams = z.infer<typeof runParamsSchema>;

/**
 * `at`: for each of `models`, the tokens of the conversation from which on it is compacted before a model call. `keep`:
 * what stays as it is, the latest turn with its results or the last items. `only`: the run calls no model for an answer;
 * it compacts what it was given, and ends.
 */
const compactionConfigSchema = lazyObject(() => ({
  at: z.array(z.int().check(z.positive())).check(z.minLength(1)),
  keep: z.union([z.literal('lastRound'), z.int().check(z.nonnegative())]),
  only: z.exactOptional(z.literal(true)),
}));

/** The agent's configuration as the chart reads it: plain data, fixed for the run. */
export const runConfigSchema = lazyObject(() => ({
  /** In order of preference; the run falls back from one to the next. */
  models: z.array(z.object({ provider: z.string(), model: z.string() })).check(z.minLength(1)),
  toolChoice: toolChoiceSchema,
  finalAnswer: z.enum(['live', 'held', 'separate']),
  onMessage: z.enum(['supersede', 'queue']),
  onLimit: z.enum(['answer', 'stop']),
  limits: limitsSchema,
  prices: z.exactOptional(pricesSchema),
  /** Of a turn whose provider reported no usage. Default `stop`: it ends a run with a limit on tokens or cost. */
  onUnknownUsage: z.exactOptional(z.enum(['stop', 'estimate'])),
  /** Attempts per turn and model, including the first. */
  attempts: z.int().check(z.positive()),
  /** When the transcript is compacted; absent: never. */
  compaction: z.exactOptional(compactionConfigSchema),
  /** The run keeps the calls that were begun, also those that a compaction replaces: its agent has rules, or tools with tags. */
  history: z.exactOptional(z.literal(true)),
  /** Whether guardrails or an output schema check the answer. */
  checksAnswer: z.boolean(),
  /** How often the answer may be blocked and sent back. */
  answerBlocks: z.int().check(z.nonnegative()),
  /**
   * The maximum size of one result in the journal, in bytes of its JSON as UTF-8. The journal keeps only the head and
   * the tail of a larger result; the full result is stored as a blob. Default 1 MiB.
   */
  maxResultBytes: z.exactOptional(z.int().check(z.positive())),
  /** A paused run also rests before it finishes, so that its last turn can be inspected before resuming. */
  holdsAtEnd: z.exactOptional(z.boolean()),
  /** For a fork: the id of the run whose tool results it plays instead of executing tools. */
  playsResultsOf: z.exactOptional(z.string()),
  /** For a fork on another model: the only model that may drive it. `models` names it in each place. */
  forkModel: z.exactOptional(z.object({ provider: z.string(), model: z.string() })),
}));
export type RunConfig = z.infer<typeof runConfigSchema>;
