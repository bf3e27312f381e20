import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { AgentDefinition, OutputContract, PrepareTurn, Retry } from '../../engine/definition.ts';
import type { Host } from '../../engine/driver/host.ts';
import type { JournalMigration } from '../../engine/versions/migrate-journal.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import { type Limits, limitsSchema, type Prices } from '../../protocol/config.ts';
import { EngineError } from '../../protocol/error.ts';
import type { Finisher } from '../../protocol/finisher.ts';
import { given, type JsonObject } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import type { Tool, ToolSource } from '../../protocol/tool.ts';
import type { Settings, ToolChoice } from '../../protocol/turn.ts';
import type { TextFilter } from '../../text/text-filter.ts';
import { buildObjectSchema } from '../build-object-schema.ts';
import { validateWith } from '../validate-with.ts';

export type AgentOptions = {
  name: string;
  /** One model, or a list in order of preference: the run falls back along it when retries are spent. */
  model?: ModelAdapter | readonly ModelAdapter[];
  instructions?: string;
  tools?: readonly (Tool | ToolSource)[];
  /** A forced choice (`required`, a name) holds for the first turn, then `auto`. Default `auto`. */
  toolChoice?: ToolChoice;
  settings?: Settings;
  providerOptions?: JsonObject;
  /** Where runs are journaled. Default: in memory. */
  store?: Store;
  /**
   * `strict` (default): everything is durable before the outside is touched. `relaxed`: soon after. There
   * a crash may run a call again in silence, and a message from another process may count as read by a
   * model call that was under way already.
   */
  durability?: 'strict' | 'relaxed';
  limits?: Partial<Limits>;
  /** At a limit: one closing call with tools off (default), or stop. */
  onLimit?: 'answer' | 'stop';
  prices?: Prices;
  /** `live` (default), `held` until the turn has proved final, or a `separate` call with tools off. */
  finalAnswer?: 'live' | 'held' | 'separate';
  onMessage?: 'supersede' | 'queue';
  /** Change text on its way to readers; the transcript keeps it raw. */
  textFilters?: readonly (() => TextFilter)[];
  /**
   * The longest result that is kept in the journal, in bytes of its JSON: of a tool that does not say, of
   * clients, people and sub-agents. Of a longer one the model reads the head and the tail. Default 1 MiB.
   */
  maxResultBytes?: number;
  /** Tools that run at the same time. Default 64. */
  toolConcurrency?: number;
  prepareTurn?: PrepareTurn;
  finishers?: readonly Finisher[];
  /**
   * What the answer must be: any Standard Schema of an object. The provider is held to it in its own way,
   * the answer is checked here, and a bad one is sent back to the model twice before the run fails.
   */
  output?: OutputSchema;
  retry?: Partial<Retry>;
  version?: string;
  /** Steps from journals of older versions to this one, for `migrate`. */
  migrations?: readonly JournalMigration[];
  /** Time, ids and randomness. Default: the system's. */
  host?: Host;
};

/** A schema, or one with a name and a JSON Schema for the model. `strict`: whether the provider enforces it, where it can choose. */
export type OutputSchema =
  | StandardSchemaV1
  | { schema: StandardSchemaV1; name?: string; jsonSchema?: JsonObject; strict?: boolean };

const DEFAULT_LIMITS: Limits = { turns: 20, toolCalls: 50 };
const DEFAULT_RETRY: Retry = { attempts: 3, baseMs: 500, maxMs: 30_000 };
const DEFAULT_CONCURRENCY = 64;

/** The options with their defaults; throws `agent-invalid` for what cannot work. The model may come later. */
export function defineAgent(options: AgentOptions): AgentDefinition {
  const { name, model, version, instructions, providerOptions, prices, prepareTurn, maxResultBytes } =
    options;
  check(typeof name === 'string' && name !== '', 'An agent needs a name.');
  const models = model === undefined ? [] : Array.isArray(model) ? [...model] : [model as ModelAdapter];
  const limits = { ...DEFAULT_LIMITS, ...given(options.limits ?? {}) };
  const retry = { ...DEFAULT_RETRY, ...given(options.retry ?? {}) };
  const toolConcurrency = options.toolConcurrency ?? DEFAULT_CONCURRENCY;
  checkLimits(limits);
  check(
    Number.isInteger(retry.attempts) && retry.attempts > 0,
    'retry.attempts must be a whole number above 0.',
  );
  check(
    Number.isInteger(toolConcurrency) && toolConcurrency > 0,
    'toolConcurrency must be a whole number above 0.',
  );
  check(
    maxResultBytes === undefined || (Number.isSafeInteger(maxResultBytes) && maxResultBytes > 0),
    'maxResultBytes must be a whole number above 0.',
  );
  checkPrices(limits, prices, models);
  return {
    name,
    models,
    tools: options.tools ?? [],
    toolChoice: options.toolChoice ?? 'auto',
    settings: options.settings ?? {},
    limits,
    onLimit: options.onLimit ?? 'answer',
    finalAnswer: options.finalAnswer ?? 'live',
    onMessage: options.onMessage ?? 'supersede',
    textFilters: options.textFilters ?? [],
    toolConcurrency,
    finishers: options.finishers ?? [],
    retry,
    migrations: checkMigrations(options.migrations ?? []),
    ...given({ output: options.output && outputContract(name, options.output) }),
    ...given({ version, instructions, providerOptions, prices, prepareTurn, maxResultBytes }),
  };
}

function outputContract(agent: string, output: OutputSchema): OutputContract {
  const { schema, name, jsonSchema, strict } =
    '~standard' in output ? { schema: output } : (output as Exclude<OutputSchema, StandardSchemaV1>);
  check(
    typeof schema?.['~standard']?.validate === 'function',
    `The output of agent "${agent}" must be a Standard Schema (zod, valibot, arktype, …), or { schema, name?, jsonSchema?, strict? }.`,
  );
  const objectSchema = buildObjectSchema({
    of: `the output of agent "${agent}"`,
    option: 'output.jsonSchema',
    schema,
    ...given({ given: jsonSchema }),
  });
  return {
    format: { name: name ?? 'answer', schema: objectSchema, ...given({ strict }) },
    validate: value => validateWith(schema, value),
  };
}

/** A step leads from a version that it names to one that it names. */
function checkMigrations(migrations: readonly JournalMigration[]): readonly JournalMigration[] {
  for (const [index, step] of migrations.entries()) {
    const named = (version: object) => Object.values(version ?? {}).some(value => value !== undefined);
    check(
      named(step?.from) && named(step?.to) && typeof step.migrate === 'function',
      `migrations[${index}] is not a step: expected { from: { chart?, format?, agent? }, to: { … }, migrate(events) }.`,
    );
  }
  return migrations;
}

/** Throws `agent-invalid` for a limit that is not a number of its kind. */
export function checkLimits(limits: Limits): void {
  const issue = limitsSchema.safeParse(limits).error?.issues[0];
  check(issue === undefined, `limits.${issue?.path.join('.')} is not valid: ${issue?.message}`);
}

export function checkPrices(
  limits: Limits,
  prices: Prices | undefined,
  models: readonly ModelAdapter[],
): void {
  if (limits.cost === undefined) return;
  check(
    prices !== undefined,
    'limits.cost needs prices: { "<model>": { input, output } }, per million tokens.',
  );
  for (const { model } of models) {
    check(Object.hasOwn(prices ?? {}, model), `limits.cost needs a price for the model "${model}".`);
  }
}

function check(holds: boolean, message: string): void {
  if (!holds) throw new EngineError('agent-invalid', message);
}
