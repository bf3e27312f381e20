import type { Context } from '../machines/context.ts';
import type { ModelAdapter } from '../protocol/adapter.ts';
import type { Limits, Prices, RunConfig } from '../protocol/config.ts';
import type { Finisher } from '../protocol/finisher.ts';
import type { Item } from '../protocol/item.ts';
import { given, type JsonObject, type JsonValue } from '../protocol/json.ts';
import type { Tool, ToolSource, Validation } from '../protocol/tool.ts';
import type { OutputFormat, Settings, ToolChoice } from '../protocol/turn.ts';
import type { TextFilter } from '../text/text-filter.ts';
import type { JournalMigration } from './versions/migrate-journal.ts';

/** What one turn may be given instead of what the agent says. `tools` are names of the agent's tools. */
export type TurnPreparation = {
  transcript?: readonly Item[];
  tools?: readonly string[];
  toolChoice?: ToolChoice;
  settings?: Settings;
  model?: ModelAdapter;
};

/** Runs in the turn service, before each attempt. `transcript` includes what is inherited; the chart never sees the result. */
export type PrepareTurn = (
  context: Context & { transcript: readonly Item[] },
) => TurnPreparation | undefined | Promise<TurnPreparation | undefined>;

/** What the answer must be: told to the provider, and checked here whatever the provider promises. */
export type OutputContract = {
  format: OutputFormat;
  validate(value: JsonValue): Validation | Promise<Validation>;
};

export type Retry = {
  /** Attempts of a turn on one model, the first included. Default 3. */
  attempts: number;
  /** The first wait in ms; it doubles from attempt to attempt. Default 500. */
  baseMs: number;
  /** The longest wait in ms, unless the provider asks for a longer one. Default 30 000. */
  maxMs: number;
};

/** An agent, complete: options with their defaults applied. */
export type AgentDefinition = {
  name: string;
  version?: string;
  models: readonly ModelAdapter[];
  instructions?: string;
  tools: readonly (Tool | ToolSource)[];
  toolChoice: ToolChoice;
  settings: Settings;
  providerOptions?: JsonObject;
  limits: Limits;
  onLimit: RunConfig['onLimit'];
  prices?: Prices;
  finalAnswer: RunConfig['finalAnswer'];
  onMessage: RunConfig['onMessage'];
  maxResultBytes?: number;
  textFilters: readonly (() => TextFilter)[];
  toolConcurrency: number;
  prepareTurn?: PrepareTurn;
  finishers: readonly Finisher[];
  output?: OutputContract;
  retry: Retry;
  migrations: readonly JournalMigration[];
};

/** What one run may have otherwise than its agent. */
export type RunChanges = {
  limits?: Partial<Limits>;
  onLimit?: RunConfig['onLimit'];
  holdsAtEnd?: boolean;
};

export function runConfigOf(definition: AgentDefinition, changes: RunChanges = {}): RunConfig {
  return {
    models: definition.models.map(({ provider, model }) => ({ provider, model })),
    toolChoice: definition.toolChoice,
    finalAnswer: definition.finalAnswer,
    onMessage: definition.onMessage,
    onLimit: changes.onLimit ?? definition.onLimit,
    limits: { ...definition.limits, ...changes.limits },
    ...given({ maxResultBytes: definition.maxResultBytes, prices: definition.prices }),
    attempts: definition.retry.attempts,
    finishers: definition.finishers.length > 0 || definition.output !== undefined,
    finisherRejections: 2,
    ...given({ holdsAtEnd: changes.holdsAtEnd }),
  };
}
