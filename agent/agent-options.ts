import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { MakeSupervisor } from '../engine/driver/run-options.ts';
import type { DriveWatcher } from '../engine/events/watch-drive.ts';
import type { Host } from '../engine/host/host.ts';
import type {
  AgentDefinition,
  CallerRetries,
  CompactionDefinition,
  Instructions,
  OutputContract,
  PrepareTurn,
  Retry,
  Summarize,
} from '../engine/services/definition.ts';
import { transferTo } from '../engine/sub-agents/hand-back.ts';
import type { JournalMigration, JournalVersion } from '../engine/versions/migrate-journal.ts';
import type { ModelAdapter } from '../protocol/adapter.ts';
import { DEFAULT_LIMITS, type Limits, limitsSchema, type Prices, priceSchema } from '../protocol/config.ts';
import { EngineError } from '../protocol/error.ts';
import type { Guardrails } from '../protocol/guardrail.ts';
import { type JsonObject, omitUndefined } from '../protocol/json.ts';
import { type NamesOf, optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { Store } from '../protocol/store.ts';
import type { AgentTool, Tool } from '../protocol/tool.ts';
import { type Settings, settingsSchema, type ToolChoice } from '../protocol/turn.ts';
import type { Condition } from '../rules/condition.ts';
import { type Rule, readRules } from '../rules/rule.ts';
import type { TextFilter } from '../text/text-filter.ts';
import { readPinned, type TrimOptions } from '../text/trim-transcript.ts';
import { buildObjectSchema } from '../tools/build-object-schema.ts';
import { listTools } from '../tools/connect-tools.ts';
import { validateWith } from '../tools/validate-with.ts';
import type { AsToolOptions } from './as-tool.ts';
import { assertHasContext } from './run-context.ts';

/** The names of tools; any text for tools that are known only once their source is connected. */
type NameOf<Tools> = Tools extends Tool<infer Name> ? Name : string;

/**
 * The options of `createAgent`. `Tools` are the agent's tools, `Output` is the type of its answer, and `RunContext` is
 * the type of its run context; `Given` is what `start` takes for it, which the schema may change.
 */
export type AgentOptions<
  Tools extends AgentTool = AgentTool,
  Output = unknown,
  RunContext = unknown,
  Given = unknown,
> = {
  /** Identifies the agent's runs in a store. Must differ from the names of its sub-agents. */
  name: string;
  /** What the agent is for, in a sentence. Callers over MCP, A2A and HTTP choose it by this; its own model never sees it. */
  description?: string;
  /**
   * The model, or several in order of preference: when the retries of one are used up, the run falls back to
   * the next. May be omitted for a sub-agent, which then uses the model of its parent, and for the CLI, which
   * uses `AGENTCHART_MODEL`.
   */
  model?: ModelAdapter | readonly ModelAdapter[];
  /**
   * Further models, which a run uses only after a fork on one: on the debugger's page, or with `model` in
   * `POST /runs/RUN/fork`. Every process that drives the agent's runs needs them. Default: none.
   */
  forkModels?: readonly ModelAdapter[];
  /** The system prompt, or a function that writes it from the run's context, before each turn. */
  instructions?: Instructions<RunContext>;
  /**
   * The schema of the run context: any Standard Schema whose output is JSON. With it, `start` requires a `runContext`,
   * which the journal keeps and which tools, approval functions, `instructions`, `prepareTurn` and guardrails get, in
   * any process. For what a run is about (a user, a tenant, a locale); secrets do not belong in it.
   */
  runContext?: StandardSchemaV1<Given, RunContext>;
  /** Tools made with `tool()` or `agent.asTool()`, and tool sources such as `mcp()`. */
  tools?: readonly Tools[];
  /**
   * Agents to which the model can hand the conversation over: each is the tool `transfer_to_NAME`, which is
   * `agent.asTool({ answers: 'directly', sees: 'transcript' })`. Its answer is the run's, and it gets the messages of the
   * runs that continue this one, until it hands the conversation back.
   */
  handoffs?: readonly HandoffAgent[];
  /**
   * Whether the model may or must call tools. A forced choice (`required` or a tool's name) applies to the
   * first turn; later turns use `auto`. Default `auto`.
   */
  toolChoice?: Exclude<ToolChoice, object> | { name: NameOf<NoInfer<Tools>> };
  /** Sampling and output settings that all providers share. */
  settings?: Settings;
  /** Extra members for the provider's request body. */
  providerOptions?: JsonObject;
  /** Where runs are journaled. Default: in memory, so runs are lost when the process ends. */
  store?: Store;
  /**
   * `strict` (default): events are durable before anything outside is touched. `relaxed`: shortly after, which
   * is faster. After a crash a relaxed run may repeat a call without noticing, and a message from another
   * process may count as read by a model call that had already started.
   */
  durability?: 'strict' | 'relaxed';
  /** What one run may spend. Default: 20 turns and 50 tool calls. */
  limits?: Partial<Limits>;
  /** At a limit: make one last model call without tools (`answer`, default), or end the run (`stop`). */
  onLimit?: 'answer' | 'stop';
  /** Token prices by model name. Required for `limits.cost`. */
  prices?: Prices;
  /**
   * With a limit on tokens or cost, when a turn reports no usage: end the run as incomplete, with the reason
   * `usage-unknown` (`stop`, default), or count an estimate from the length of what was sent and received (`estimate`).
   * A sub-agent without this option uses that of its parent.
   */
  onUnknownUsage?: 'stop' | 'estimate';
  /**
   * When readers see text. `live` (default): as it streams. `held`: once a turn is complete and turned out to
   * be the answer. `separate`: one more model call without tools streams the answer.
   */
  finalAnswer?: 'live' | 'held' | 'separate';
  /**
   * What a message from `run.send` does to calls that wait for approval: leave them waiting, and the model reads
   * the message after their results (`queue`, default), or reject them (`supersede`).
   */
  onMessage?: 'queue' | 'supersede';
  /** Whether model turns are streamed. A run's own `stream` takes precedence. Default `true`. */
  stream?: boolean;
  /** Filters that change text on its way to readers. The transcript keeps the raw text. */
  textFilters?: readonly (() => TextFilter)[];
  /**
   * The largest result that is kept in the journal, in bytes of its JSON. Of a larger one the model reads the
   * head and the tail, and the store keeps the full value. A tool's own `maxResultBytes` takes precedence.
   * Default 1 MiB.
   */
  maxResultBytes?: number;
  /**
   * `requests`: the store keeps what each model call sent to the provider and what came back, without secrets and up to
   * 1 MiB each, for the debugger. Only of adapters over HTTP, and in no export. Default: nothing is kept.
   */
  capture?: 'requests';
  /** How many tool calls of a turn may run at the same time. Background work does not count. Default 64. */
  toolConcurrency?: number;
  /** Changes the request of a turn. Called before each attempt. */
  prepareTurn?: PrepareTurn<RunContext>;
  /** When and how the older part of a long transcript is replaced by a summary. Default: never. */
  compaction?: CompactionOptions;
  /** Functions that judge what passes through a run: they let it pass, block it, or replace it. */
  guardrails?: Guardrails<RunContext>;
  /**
   * What may not happen in a thread: rules, or conditions alone, such as `never('leaves').after('untrusted')`. Each call is
   * judged when its turn has made it, when a person changes it, and right before its tool starts.
   */
  rules?: readonly (Rule<RunContext> | Condition)[];
  /**
   * The schema of the answer: any Standard Schema of an object. The provider is asked to follow it and the
   * answer is validated. An invalid answer is sent back to the model up to twice, then the run fails. The
   * validated value is `settled.output`.
   */
  output?: OutputSchema<Output>;
  /** Attempts and delays when a model call fails. */
  retry?: Partial<Retry>;
  /** The version of the agent, recorded in each journal and compared by `agent.check`. */
  version?: string;
  /** Migrations of journals of older versions, for `agent.migrate`. */
  migrations?: readonly JournalMigration[];
  /** Clock, ids and randomness. Default: those of the system. */
  host?: Host;
  /**
   * For instruments such as `agentchart/otel`: what watches the drives of this agent's runs.
   * @internal
   */
  watchers?: readonly DriveWatcher[];
  /**
   * For servers whose clients repeat what fails.
   * @internal
   */
  callerRetries?: CallerRetries;
  /**
   * For systems such as `agentchart/hosts/restate`: who drives this agent's runs. Default: this process.
   * @internal
   */
  makeSupervisor?: MakeSupervisor;
};

/**
 * Replaces the older part of the transcript, before a model call, by a summary and by the ledger of what was done: each
 * settled `once` call. An equal `once` call is gated from then on, unless its tool is `repeatable`. All entries stay in
 * the journal.
 */
export type CompactionOptions = TrimOptions & {
  /**
   * The size of the conversation from which on it is compacted, as of the latest turn's input and output: tokens, or a
   * fraction of the model's context window, if the adapter knows that (`capabilities.contextWindow`).
   */
  at: number;
  /**
   * What stays as it is: the latest turn with its calls and results (`lastRound`, default), or the last items, more if a
   * call would be separated from its result. System and developer messages, the latest message of the user and pinned
   * items stay too.
   */
  keep?: 'lastRound' | number;
  /**
   * Who writes the summary: one more call of the run's model, the provider (for adapters with `compact`), or a function
   * of the items that are replaced. If that fails, the run continues with its whole transcript.
   */
  summarize: 'provider' | 'model' | Summarize;
  /** @internal The run compacts what it is given, and ends. */
  only?: true;
  /** @internal Whether the model gets a tool that lists what was done. Default `true`. */
  tellsLedger?: boolean;
};

/**
 * A Standard Schema, or one with a name and a JSON Schema for the model. `strict` sets whether the provider
 * enforces the schema, if it lets the caller choose.
 */
export type OutputSchema<Output = unknown> =
  | StandardSchemaV1<unknown, Output>
  | { schema: StandardSchemaV1<unknown, Output>; name?: string; jsonSchema?: JsonObject; strict?: boolean };

/** What tools need of the run context and the agent's does not have; `never` if nothing is missing. */
type Unmet<Tools, RunContext> =
  Tools extends Tool<string, unknown, unknown, infer Needed>
    ? unknown extends Needed
      ? never
      : [RunContext] extends [Needed]
        ? never
        : Needed
    : never;

/** Requires of an agent's `runContext` what its tools need. */
export type ContextCheck<Tools, RunContext> = [Unmet<Tools, RunContext>] extends [never]
  ? unknown
  : { runContext: StandardSchemaV1<unknown, Unmet<Tools, RunContext>> };

/** An agent, as far as another one needs it to hand the conversation over. */
interface HandoffAgent {
  readonly name: string;
  readonly options: AgentOptions;
  asTool(options: AsToolOptions): AgentTool;
}

/** The options of `createAgent` without what only a store needs. */
type StorelessOptions = Omit<AgentOptions, 'store' | 'durability' | 'migrations' | 'handoffs'>;

const LOOP_NAMES = optionNames<StorelessOptions>()(
  'name description model forkModels instructions runContext tools toolChoice settings providerOptions limits onLimit prices onUnknownUsage finalAnswer onMessage stream textFilters maxResultBytes capture toolConcurrency prepareTurn compaction guardrails rules output retry version host watchers callerRetries makeSupervisor',
);
const AGENT_NAMES: NamesOf<AgentOptions> = {
  ...LOOP_NAMES,
  store: true,
  durability: true,
  migrations: true,
  handoffs: true,
};
const COMPACTION_NAMES = optionNames<CompactionOptions>()('at keep summarize pinned only tellsLedger');
const GUARDRAIL_NAMES = optionNames<Guardrails>()('input toolInput toolOutput answer');
const RETRY_NAMES = optionNames<Retry>()('attempts baseMs maxMs');
const OUTPUT_NAMES = optionNames<Exclude<OutputSchema, { '~standard': unknown }>>()(
  'schema name jsonSchema strict',
);
const MIGRATION_NAMES = optionNames<JournalMigration>()('from to migrate');
const VERSION_NAMES = optionNames<JournalVersion>()('format chart agent');
const CHOICE_NAMES = optionNames<{ name: string }>()('name');

/** Returns the options of `createAgent`. Throws `agent-invalid` for an unknown name, at any depth. */
export function knownAgentOptions(options: AgentOptions): AgentOptions {
  refuseUnknownOptions('createAgent', options, AGENT_NAMES);
  return refuseUnknownBelow('createAgent', options);
}

/** The options with the tools that hand the conversation over. Throws `agent-invalid` for anything but an agent. */
export function withHandoffs({ handoffs, ...options }: AgentOptions): AgentOptions {
  if (handoffs === undefined) return options;
  check(Array.isArray(handoffs), `expected a list of agents as handoffs, got ${describe(handoffs)}.`);
  const tools = handoffs.map((agent, index) => {
    check(
      typeof agent?.asTool === 'function',
      `expected handoffs[${index}] to be an agent, got ${describe(agent)}. For what an agent sees, put agent.asTool({ answers: 'directly', sees: 'transcript', filter }) among the tools.`,
    );
    const { name } = agent;
    const { description } = agent.options;
    const about = description === undefined ? '' : `\n${name}: ${description}`;
    return agent.asTool({
      name: transferTo(name),
      description: `Hands the conversation over to ${name}, which sees it and answers the user. Call it in a turn of its own.${about}`,
      answers: 'directly',
      sees: 'transcript',
    });
  });
  return { ...options, tools: [...(options.tools ?? []), ...tools] };
}

/** As `knownAgentOptions`, for `agentServices` and `agentInput`. */
export function knownLoopOptions<Options extends Partial<StorelessOptions>>(
  of: string,
  options: Options,
): Options {
  refuseUnknownOptions(of, options, LOOP_NAMES);
  return refuseUnknownBelow(of, options);
}

function refuseUnknownBelow<Options extends Partial<AgentOptions>>(of: string, options: Options): Options {
  const {
    limits,
    retry,
    settings,
    toolChoice,
    compaction,
    guardrails,
    output,
    prices = {},
    migrations = [],
  } = options;
  const refuse = (name: string, given: unknown, known: object) => {
    if (given !== undefined) refuseUnknownOptions(`${name} of ${of}`, given, known);
  };
  refuse('limits', limits, limitsSchema.shape);
  refuse('retry', retry, RETRY_NAMES);
  refuse('compaction', compaction, COMPACTION_NAMES);
  refuse('guardrails', guardrails, GUARDRAIL_NAMES);
  refuse('settings', settings, settingsSchema.shape);
  if (typeof toolChoice === 'object') refuse('toolChoice', toolChoice, CHOICE_NAMES);
  if (output !== undefined && typeof output === 'object' && !('~standard' in output))
    refuse('output', output, OUTPUT_NAMES);
  for (const [model, price] of Object.entries(prices)) refuse(`prices["${model}"]`, price, priceSchema.shape);
  for (const [index, step] of migrations.entries()) {
    refuse(`migrations[${index}]`, step, MIGRATION_NAMES);
    refuse(`migrations[${index}].from`, step.from, VERSION_NAMES);
    refuse(`migrations[${index}].to`, step.to, VERSION_NAMES);
  }
  return options;
}

const DEFAULT_RETRY: Retry = { attempts: 3, baseMs: 500, maxMs: 30_000 };
const DEFAULT_CONCURRENCY = 64;

/** Returns the options with their defaults. Throws `agent-invalid` for invalid ones. A missing model is valid. */
export function defineAgent(options: AgentOptions): AgentDefinition {
  const {
    name,
    description = name,
    tools = [],
    toolChoice = 'auto',
    prices,
    onUnknownUsage,
    maxResultBytes,
    capture,
  } = options;
  check(typeof name === 'string' && name !== '', 'name must be a non-empty string.');
  check(typeof description === 'string' && description !== '', 'description must be a non-empty string.');
  const models = listModels(options.model);
  const forkModels = [...(options.forkModels ?? [])];
  checkParts(tools, options.store, [...models, ...forkModels]);
  checkHost(options.host);
  const limits = { ...DEFAULT_LIMITS, ...omitUndefined(options.limits ?? {}) };
  const retry = { ...DEFAULT_RETRY, ...omitUndefined(options.retry ?? {}) };
  const toolConcurrency = options.toolConcurrency ?? DEFAULT_CONCURRENCY;
  checkLimits(limits);
  checkPositive('retry.attempts', retry.attempts);
  checkPositive('toolConcurrency', toolConcurrency);
  if (maxResultBytes !== undefined) checkPositive('maxResultBytes', maxResultBytes);
  check(
    onUnknownUsage === undefined || onUnknownUsage === 'stop' || onUnknownUsage === 'estimate',
    "onUnknownUsage must be 'stop' or 'estimate'.",
  );
  check(options.stream === undefined || typeof options.stream === 'boolean', 'stream must be a boolean.');
  check(capture === undefined || capture === 'requests', "capture must be 'requests' or absent.");
  checkPrices(limits, prices, [...models, ...forkModels]);
  const validateRunContext = runContextValidator(name, options.runContext);
  assertHasContext({ name, validateRunContext }, tools);
  assertToolChoice({ name, toolChoice }, listTools(tools));
  const { version, instructions, providerOptions, prepareTurn } = options;
  return {
    name,
    models,
    forkModels,
    tools,
    toolChoice,
    settings: options.settings ?? {},
    limits,
    onLimit: options.onLimit ?? 'answer',
    finalAnswer: options.finalAnswer ?? 'live',
    onMessage: options.onMessage ?? 'queue',
    stream: options.stream ?? true,
    textFilters: options.textFilters ?? [],
    toolConcurrency,
    guardrails: {
      input: listGuardrails('input', options.guardrails?.input),
      toolOutput: listGuardrails('toolOutput', options.guardrails?.toolOutput),
      toolInput: listGuardrails('toolInput', options.guardrails?.toolInput),
      answer: listGuardrails('answer', options.guardrails?.answer),
    },
    rules: readRules(options.rules ?? []),
    retry,
    migrations: checkMigrations(options.migrations ?? []),
    ...omitUndefined({ output: options.output && outputContract(name, options.output) }),
    ...omitUndefined({ version, instructions, validateRunContext, providerOptions, prices, prepareTurn }),
    ...omitUndefined({ onUnknownUsage, maxResultBytes, capture, callerRetries: options.callerRetries }),
    ...omitUndefined({ compaction: options.compaction && defineCompaction(options.compaction, [...models]) }),
  };
}

function defineCompaction(
  { at, keep = 'lastRound', summarize, pinned = [], only }: CompactionOptions,
  models: readonly ModelAdapter[],
): CompactionDefinition {
  check(
    typeof at === 'number' && at > 0 && (at < 1 || Number.isSafeInteger(at)),
    `compaction.at: expected a number of tokens, or a fraction between 0 and 1, got ${at}.`,
  );
  check(
    keep === 'lastRound' || (Number.isSafeInteger(keep) && keep >= 0),
    `compaction.keep: expected 'lastRound' or a number of items, got ${keep}.`,
  );
  check(
    summarize === 'provider' || summarize === 'model' || typeof summarize === 'function',
    `compaction.summarize: expected 'provider', 'model' or a function, got ${JSON.stringify(summarize)}.`,
  );
  const unable = summarize === 'provider' && models.find(({ compact }) => compact === undefined);
  check(
    !unable,
    `compaction.summarize: the adapter of ${unable && `${unable.provider}:${unable.model}`} cannot compact. Use summarize: 'model', or a function.`,
  );
  // Without a model no run begins, but the agent can be explored.
  const thresholds = models.length === 0 ? [Math.max(1, at)] : models.map(thresholdOf);
  return { at: thresholds, keep, summarize, isPinned: readPinned({ pinned }), ...omitUndefined({ only }) };

  function thresholdOf({ provider, model, capabilities: { contextWindow } }: ModelAdapter): number {
    if (at >= 1) return at;
    check(
      contextWindow !== undefined,
      `compaction.at: the context window of ${provider}:${model} is not known, so a fraction of it is not either. Give tokens, such as at: 100_000.`,
    );
    return Math.max(1, Math.floor(at * (contextWindow ?? 0)));
  }
}

function listGuardrails<Guardrail>(
  name: keyof Guardrails,
  given: Guardrail | readonly Guardrail[] = [],
): readonly Guardrail[] {
  const guardrails = (Array.isArray(given) ? given : [given]) as Guardrail[];
  for (const one of guardrails)
    check(
      typeof one === 'function',
      `guardrails.${name}: expected a function or a list of functions, got ${describe(one)}.`,
    );
  return [...guardrails];
}

function checkPositive(name: string, value: number): void {
  check(Number.isSafeInteger(value) && value > 0, `${name} must be a positive integer.`);
}

/** Throws unless `schema` is a Standard Schema. */
function checkSchema(what: string, schema: StandardSchemaV1 | undefined, or = ''): void {
  check(
    typeof schema?.['~standard']?.validate === 'function',
    `The ${what} must be a Standard Schema (zod, valibot, arktype, …)${or}.`,
  );
}

function runContextValidator(agent: string, schema: StandardSchemaV1 | undefined) {
  if (schema === undefined) return undefined;
  checkSchema(`runContext of agent "${agent}"`, schema);
  return (value: unknown) => validateWith(schema, value);
}

function listModels(model: AgentOptions['model']): readonly ModelAdapter[] {
  if (model === undefined) return [];
  return Array.isArray(model) ? [...model] : [model as ModelAdapter];
}

/** Throws `agent-invalid` for a model, tool or store that is none: without a check of types, it would fail later. */
function checkParts(tools: AgentOptions['tools'] & object, store: unknown, models: readonly unknown[]): void {
  const hasMethod = (value: unknown, name: string): boolean =>
    typeof value === 'object' && value !== null && typeof Reflect.get(value, name) === 'function';
  for (const model of models)
    check(
      hasMethod(model, 'stream') && Boolean((model as ModelAdapter).model),
      `expected an adapter as model, such as openaiResponses({ model: 'gpt-5-mini' }), got ${describe(model)}. For a text, use modelFromEnv('openai:gpt-5-mini').`,
    );
  check(Array.isArray(tools), `expected a list of tools, such as tools: [refund], got ${describe(tools)}.`);
  for (const [index, entry] of tools.entries())
    check(
      hasMethod(entry, 'validate') || hasMethod(entry, 'connect'),
      `expected tools[${index}] to be made by tool() or mcp(), got ${describe(entry)}. For tools of the AI SDK, use aiSdkTools(); for an agent, agent.asTool().`,
    );
  check(
    store === undefined || hasMethod(store, 'append'),
    `expected a store, such as sqlite('runs.db'), got ${describe(store)}.`,
  );
}

const HOST_METHODS: readonly (keyof Host)[] = ['now', 'monotonic', 'random', 'newId', 'setTimer'];

function checkHost(host: Host | undefined): void {
  if (host === undefined) return;
  const missing = HOST_METHODS.filter(name => typeof host?.[name] !== 'function');
  check(
    missing.length === 0,
    `expected a host such as { ...systemHost, now }, got ${describe(host)}: it lacks ${missing.join(', ')}.`,
  );
}

function describe(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? typeof value;
  return `an object with ${Object.keys(value).slice(0, 5).join(', ') || 'no members'}`;
}

function outputContract(agent: string, output: OutputSchema): OutputContract {
  const { schema, name, jsonSchema, strict } =
    '~standard' in output ? { schema: output } : (output as Exclude<OutputSchema, StandardSchemaV1>);
  checkSchema(`output of agent "${agent}"`, schema, ', or { schema, name?, jsonSchema?, strict? }');
  const objectSchema = buildObjectSchema({
    of: `the output of agent "${agent}"`,
    option: 'output.jsonSchema',
    schema,
    ...omitUndefined({ given: jsonSchema }),
  });
  return {
    format: { name: name ?? 'answer', schema: objectSchema, ...omitUndefined({ strict }) },
    validate: value => validateWith(schema, value),
  };
}

/** Throws `agent-invalid` unless every migration names the versions that it leads from and to. */
function checkMigrations(migrations: readonly JournalMigration[]): readonly JournalMigration[] {
  for (const [index, step] of migrations.entries()) {
    const isNamed = (version: object) => Object.values(version ?? {}).some(value => value !== undefined);
    check(
      isNamed(step?.from) && isNamed(step?.to) && typeof step.migrate === 'function',
      `migrations[${index}] is invalid: expected { from: { chart?, format?, agent? }, to: { … }, migrate(events) }.`,
    );
  }
  return migrations;
}

/** Throws `agent-invalid` if the agent must call a tool that it does not have. `tools` may be unknown so far. */
export function assertToolChoice(
  { name, toolChoice }: Pick<AgentDefinition, 'name' | 'toolChoice'>,
  tools: ReadonlyMap<string, Tool> | undefined,
): void {
  if (typeof toolChoice === 'string' || tools === undefined) return;
  const names = [...tools.keys()].join(', ') || 'none';
  check(
    tools.has(toolChoice.name),
    `toolChoice of agent "${name}" names "${toolChoice.name}", which is not one of its tools: ${names}.`,
  );
}

export function checkLimits(limits: Limits): void {
  const issue = limitsSchema.safeParse(limits).error?.issues[0];
  check(issue === undefined, `limits.${issue?.path.join('.')} is invalid: ${issue?.message}`);
}

/** Throws `agent-invalid` if there is a cost limit and a model has no price. */
export function checkPrices(
  limits: Limits,
  prices: Prices | undefined,
  models: readonly ModelAdapter[],
): void {
  if (limits.cost === undefined) return;
  check(
    prices !== undefined,
    'limits.cost requires prices: { "<model>": { input, output } }, per million tokens.',
  );
  for (const { model } of models) {
    check(Object.hasOwn(prices ?? {}, model), `limits.cost requires a price for the model "${model}".`);
  }
}

/** Throws `agent-invalid` if there is a limit on tokens or cost and a model never says what its turns used. */
export function checkUsage(
  limits: Limits,
  { name, models, onUnknownUsage }: Pick<AgentDefinition, 'name' | 'models' | 'onUnknownUsage'>,
): void {
  const limit = limits.tokens === undefined ? 'cost' : 'tokens';
  if (limits[limit] === undefined || onUnknownUsage === 'estimate') return;
  const silent = models.find(({ capabilities }) => capabilities.usage === false);
  check(
    silent === undefined,
    `limits.${limit} cannot bind for agent "${name}": the model ${silent?.provider}:${silent?.model} reports no usage. Set onUnknownUsage: 'estimate', remove the limit, or use a model whose adapter reports usage.`,
  );
}

function check(holds: boolean, message: string): void {
  if (!holds) throw new EngineError('agent-invalid', message);
}
