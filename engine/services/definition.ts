import type { Context } from '../../machines/context.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import type { Limits, Prices, RunConfig } from '../../protocol/config.ts';
import type {
  AnswerGuardrail,
  InputGuardrail,
  ToolInputGuardrail,
  ToolOutputGuardrail,
} from '../../protocol/guardrail.ts';
import type { Item } from '../../protocol/item.ts';
import { type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { Tool, ToolSource, Validation } from '../../protocol/tool.ts';
import type { OutputFormat, Settings, ToolChoice } from '../../protocol/turn.ts';
import type { Rule } from '../../rules/rule.ts';
import type { TextFilter } from '../../text/text-filter.ts';
import type { JournalMigration } from '../versions/migrate-journal.ts';

/** Overrides for one turn. `tools` are names of the agent's tools. */
export type TurnPreparation = {
  transcript?: readonly Item[];
  tools?: readonly string[];
  toolChoice?: ToolChoice;
  settings?: Settings;
  model?: ModelAdapter;
};

/**
 * Prepares each attempt of a turn. `transcript` includes inherited items, and `runContext` is what `agent.start` was
 * given. The returned overrides are not journaled.
 */
export type PrepareTurn<RunContext = unknown> = (
  context: Omit<Context, 'runContext'> & { transcript: readonly Item[]; runContext: RunContext },
) => TurnPreparation | undefined | Promise<TurnPreparation | undefined>;

/** The format of the answer, which is sent to the provider, and its validation by the engine. */
export type OutputContract = {
  format: OutputFormat;
  validate(value: JsonValue): Validation | Promise<Validation>;
};

/** The system prompt, or a function that writes it from the run's context. */
export type Instructions<RunContext = unknown> = string | ((runContext: RunContext) => string);

/** How failed turns are retried. */
export type Retry = {
  /** Attempts per turn and model, including the first. Default 3. */
  attempts: number;
  /** The first wait in ms; it doubles with each attempt. Default 500. */
  baseMs: number;
  /** The longest wait in ms, unless the provider asks for a longer one. Default 30 000. */
  maxMs: number;
};

/** Asked when an attempt has failed that could be repeated: whether the caller repeats it, and not the run. */
export type CallerRetries = (context: Context) => boolean;

/** Writes the summary that replaces items of the transcript. */
export type Summarize = (
  items: readonly Item[],
  options: { signal: AbortSignal },
) => string | Promise<string>;

/** How transcripts are compacted. `at` has the threshold of each model, in tokens. */
export type CompactionDefinition = NonNullable<RunConfig['compaction']> & {
  summarize: 'provider' | 'model' | Summarize;
  isPinned(item: Item): boolean;
};

type UnknownUsage = NonNullable<RunConfig['onUnknownUsage']>;

/** An agent's options with defaults applied. */
export type AgentDefinition = {
  name: string;
  version?: string;
  models: readonly ModelAdapter[];
  /** The models of forks, besides `models`. */
  forkModels: readonly ModelAdapter[];
  instructions?: Instructions;
  tools: readonly (Tool | ToolSource)[];
  toolChoice: ToolChoice;
  settings: Settings;
  providerOptions?: JsonObject;
  limits: Limits;
  onLimit: RunConfig['onLimit'];
  prices?: Prices;
  onUnknownUsage?: UnknownUsage;
  finalAnswer: RunConfig['finalAnswer'];
  onMessage: RunConfig['onMessage'];
  stream: boolean;
  maxResultBytes?: number;
  capture?: 'requests';
  textFilters: readonly (() => TextFilter)[];
  toolConcurrency: number;
  prepareTurn?: PrepareTurn;
  compaction?: CompactionDefinition;
  guardrails: {
    input: readonly InputGuardrail[];
    toolInput: readonly ToolInputGuardrail[];
    toolOutput: readonly ToolOutputGuardrail[];
    answer: readonly AnswerGuardrail[];
  };
  rules: readonly Rule[];
  output?: OutputContract;
  /** Validates the run context that `start` is given; absent for an agent without one. */
  validateRunContext?: ((value: unknown) => Validation | Promise<Validation>) | undefined;
  retry: Retry;
  callerRetries?: CallerRetries;
  migrations: readonly JournalMigration[];
};

type RunChanges = {
  limits?: Partial<Limits>;
  onLimit?: RunConfig['onLimit'];
  holdsAtEnd?: boolean;
};

/** Whether rules of this agent, or of one to which it hands the conversation, may ask for it. */
function keepsHistory({ rules, tools }: AgentDefinition): boolean {
  return rules.length > 0 || tools.some(({ tags = [] }) => tags.length > 0);
}

export function runConfigOf(definition: AgentDefinition, changes: RunChanges = {}): RunConfig {
  const { compaction } = definition;
  return {
    models: definition.models.map(({ provider, model }) => ({ provider, model })),
    toolChoice: definition.toolChoice,
    finalAnswer: definition.finalAnswer,
    onMessage: definition.onMessage,
    onLimit: changes.onLimit ?? definition.onLimit,
    limits: { ...definition.limits, ...changes.limits },
    ...omitUndefined({
      maxResultBytes: definition.maxResultBytes,
      prices: definition.prices,
      onUnknownUsage: definition.onUnknownUsage,
      compaction: compaction && {
        at: compaction.at,
        keep: compaction.keep,
        ...omitUndefined({ only: compaction.only }),
      },
    }),
    attempts: definition.retry.attempts,
    ...(keepsHistory(definition) && { history: true as const }),
    checksAnswer: definition.guardrails.answer.length > 0 || definition.output !== undefined,
    answerBlocks: 2,
    ...omitUndefined({ holdsAtEnd: changes.holdsAtEnd }),
  };
}
