import { actorsOf, type LiveOptions, type ServiceActors } from '../engine/driver/live.ts';
import type { RunOptions } from '../engine/driver/run-options.ts';
import { type Host, systemHost } from '../engine/host/host.ts';
import { driverOptions, isOwnerDead } from '../engine/host/owner.ts';
import { type Continued, InheritedTranscripts } from '../engine/journal/load-history.ts';
import { type LoadedRun, loadRun } from '../engine/journal/load-run.ts';
import type { Settled } from '../engine/log/settled.ts';
import { checkRun, type MigrateOptions, migrateRun } from '../engine/migrations/migrate-run.ts';
import { Run } from '../engine/run/run.ts';
import type { AgentDefinition } from '../engine/services/definition.ts';
import { makeServices } from '../engine/services/make-services.ts';
import { explainMissingModel } from '../engine/services/prepare-request.ts';
import type { Service } from '../engine/services/service.ts';
import { toolsIn } from '../engine/sub-agents/hand-back.ts';
import { type ChildRequest, narrowLimits } from '../engine/sub-agents/sub-agent-runs.ts';
import type { VersionReport } from '../engine/versions/compare-versions.ts';
import { versionMismatch } from '../engine/versions/version-mismatch.ts';
import { type AgentMachine, agentMachine } from '../machines/agent.ts';
import type { Limits } from '../protocol/config.ts';
import type { ServiceName } from '../protocol/effect.ts';
import { EngineError, isThrown } from '../protocol/error.ts';
import type { HandedTo, RunStarted } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import { type JsonValue, omitUndefined } from '../protocol/json.ts';
import { hasLabels, type Labels, readLabels, readThreadId } from '../protocol/listing/label.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { latestIn, type RunRecord, type Store, type ThreadPlace } from '../protocol/store.ts';
import type { AgentTool, SubAgentTool, Tool } from '../protocol/tool.ts';
import { memory } from '../stores/memory.ts';
import { nonDrivingStore } from '../stores/non-driving-store.ts';
import { filterText } from '../text/text-filter.ts';
import { isToolSource, listTools, ToolConnection } from '../tools/connect-tools.ts';
import type { ResultOf } from '../tools/tool.ts';
import {
  type AgentOptions,
  assertToolChoice,
  type ContextCheck,
  checkPrices,
  checkUsage,
  defineAgent,
  knownAgentOptions,
  withHandoffs,
} from './agent-options.ts';
import { type AsToolOptions, asTool, type SubAgentAnswer } from './as-tool.ts';
import {
  beginJournal,
  type ChildStart,
  cancelOn,
  knownInput,
  knownStart,
  type LoopStart,
  type ResolvedStart,
  type StartArguments,
  type StartOptions,
} from './begin-journal.ts';
import { ledgerTool } from './ledger-tool.ts';
import { type AgentListener, AgentListeners, type LastingListener } from './listening/agent-listeners.ts';
import { type MapArguments, type MapOptions, type MapResult, mapInputs } from './map-inputs.ts';
import { restoreRun } from './restore-run.ts';
import { assertToolsAccept, readRunContext, readRunContextNow } from './run-context.ts';
import {
  ASSERT_BOUND,
  agentNamed,
  BEGIN_CHILD,
  foreignRun,
  namesOf,
  placedOptions,
  type SubAgent,
  SubAgents,
} from './sub-agents.ts';
import { nextInThread, startInThread, Thread } from './thread.ts';

const AGENT = Symbol.for('agentchart.agent');

/**
 * Options of `agent.open`: `labels` that the run must have, beside others. Options of `agent.thread`: exactly the `labels` of
 * its runs.
 */
export type OpenOptions = { labels?: Labels };
const OPEN_NAMES = optionNames<OpenOptions>()('labels');

/**
 * An agent: model, tools, instructions and limits. It has no state; its runs are in its store.
 * Create one with `createAgent`. `RunContext` is what `start` takes; `Agent` alone is any agent.
 */
export class Agent<Tools extends AgentTool = AgentTool, Output = unknown, RunContext = unknown>
  implements SubAgent
{
  readonly [AGENT] = true;
  readonly name: string;
  readonly store: Store;
  readonly #definition: AgentDefinition;
  readonly #options: AgentOptions;
  readonly #host: Host;
  readonly #services: Readonly<Record<ServiceName, Service>>;
  readonly #inherited: InheritedTranscripts;
  readonly #subAgents: SubAgents<Agent>;
  readonly #above: Agent | undefined;
  readonly #tools: ToolConnection;
  readonly #listeners: AgentListeners;

  /** `above` is the agent that this one is a sub-agent of. */
  constructor(definition: AgentDefinition, options: AgentOptions, store: Store, above?: Agent) {
    this.name = definition.name;
    this.store = store;
    this.#definition = definition;
    this.#options = options;
    this.#above = above;
    this.#host = options.host ?? systemHost;
    this.#inherited = InheritedTranscripts.of(store);
    const tellsLedger = definition.compaction !== undefined && options.compaction?.tellsLedger !== false;
    this.#tools = new ToolConnection([...definition.tools, ...(tellsLedger ? [ledgerTool(store)] : [])]);
    this.#subAgents = new SubAgents<Agent>(
      { self: this, name: this.name, store, tools: definition.tools },
      agent => this.#place(agent),
    );
    this.#listeners = new AgentListeners(this, this.#host, name => namesOf(this).includes(name));
    this.#services = makeServices(definition, {
      connectTools: () => this.#tools.connect(),
      subAgents: this.#subAgents,
      watchers: options.watchers,
    });
  }

  /** The options of this agent, for creating a similar one: `createAgent({ ...agent.options, store })`. */
  get options(): AgentOptions {
    return this.#options;
  }

  /**
   * Starts a run and drives it in this process. Resolves once the first event is durable. Rejects, without
   * creating a run, with `model-missing`, `input-invalid`, `agent-invalid`, `run-exists` (for a given `runId`) or
   * `tool-source-failed`, and if the run to continue does not exist or has not ended. If a person must sign in at a tool
   * server first, the run starts and waits for that.
   *
   * With `thread`, the runs of a conversation are in one order, and at most one has not ended: if there is one, this sends
   * it the input and returns it. Rejects with `run-foreign` if that run belongs to another agent.
   *
   * @example
   * const run = await agent.start('Refund order A-1001');
   * for await (const text of run.text()) process.stdout.write(text);
   * const settled = await run.settled();
   */
  async start(
    input: string | readonly Item[],
    ...[options]: StartArguments<RunContext>
  ): Promise<Run<Tools, Output>> {
    return await this.#start(input, options);
  }

  async #start(input: string | readonly Item[], options: StartOptions = {}): Promise<Run<Tools, Output>> {
    const { continues, signal, thread, placeless } = knownStart(options);
    if (typeof continues === 'string') await this.#inherited.assertEnded(continues);
    const run =
      thread === undefined || placeless === true
        ? await this.#beginBeside(input, options)
        : await startInThread<Run<Tools, Output>>(this.#threadOf(thread, options), options, {
            begin: (older, place) => this.#begin(input, { ...options, continues: older, place }),
            open: runId => this.#attach(runId),
            input,
            store: this.store,
          });
    cancelOn(signal, run);
    return run;
  }

  /** Starts the run of a sub-agent call, or attaches to it if it exists. */
  async [BEGIN_CHILD]({ input, limits, isAwaited, ...given }: ChildRequest): Promise<Run> {
    const narrowed = narrowLimits(this.#definition.limits, limits);
    const takesContext = given.onlyCall !== undefined || this.#definition.validateRunContext !== undefined;
    const request = { ...given, runContext: takesContext ? given.runContext : undefined };
    const known = await this.store.get(request.runId);
    try {
      if (known === undefined)
        return await this.#begin(input, { ...request, limits: narrowed }, { isAwaited });
    } catch (error) {
      if (!(error instanceof EngineError) || error.code !== 'run-exists') throw error;
    }
    return await this.#attach(request.runId, { isAwaited });
  }

  /** Throws `agent-invalid` if limits on tokens and cost cannot bind for this agent, or one below it. */
  [ASSERT_BOUND](limits: Limits): void {
    checkPrices(limits, this.#definition.prices, this.#definition.models);
    checkUsage(limits, this.#definition);
    this.#subAgents.assertBoundBy(limits);
  }

  /** Begins a run, outside the thread that it would continue if another run does that at the same time. */
  async #beginBeside(input: string | readonly Item[], options: StartOptions): Promise<Run<Tools, Output>> {
    try {
      return await this.#begin(input, options);
    } catch (error) {
      if (latestIn(error) === undefined) throw error;
      return await this.#begin(input, options);
    }
  }

  async #begin(
    input: string | readonly Item[],
    options: StartOptions &
      Pick<ResolvedStart, 'inheritedLabels' | 'people'> &
      ChildStart & { place?: ThreadPlace },
    awaited: Pick<RunOptions, 'isAwaited'> = {},
  ): Promise<Run<Tools, Output>> {
    const runId = options.runId ?? this.#host.newId('run');
    const {
      items: inherited,
      sent: before,
      inherits,
      people,
      handedTo,
    } = await this.#inherited.load(options.continues ?? null, options.continuesAt);
    const connected = await this.#connectToStart();
    const tools = connected && toolsIn(connected, options);
    const known = tools ?? toolsIn(this.#ownTools(), options);
    assertToolChoice(this.#definition, tools);
    // A run of one call has the context of its parent, which was read already.
    const runContext =
      options.onlyCall === undefined
        ? await readRunContext(this.#definition, options.runContext)
        : (options.runContext as JsonValue | undefined);
    await assertToolsAccept(this.name, known, runContext);
    const { continues } = options;
    const older = typeof continues === 'string' ? await this.store.get(continues) : undefined;
    const { place, ...placed } = { ...(await nextInThread(this.store, older, options)), ...options };
    const inheritedLabels = options.inheritedLabels ?? older?.labels ?? {};
    const start = {
      ...placed,
      inheritedLabels,
      runId,
      tools,
      runContext,
      sent: options.sent ?? before,
      inherits: options.inherits ?? inherits,
      ...omitUndefined({
        people: options.people ?? people,
        handedTo: canHandOn(input, handedTo, known) ? handedTo : undefined,
      }),
    };
    const started = this.#describeStart(input, start);
    return await Run.begin({ ...this.#runOptions(runId), ...awaited }, started, inherited, place);
  }

  /** `undefined` if a person must sign in first: the run starts, and waits for that. */
  async #connectToStart(): Promise<ReadonlyMap<string, Tool> | undefined> {
    try {
      return await this.#tools.connect();
    } catch (error) {
      if (isThrown(error, EngineError) && error.code === 'sign-in-needed') return undefined;
      throw error;
    }
  }

  #ownTools(): ReadonlyMap<string, Tool> {
    return listTools(this.#definition.tools.filter(tool => !isToolSource(tool))) ?? new Map();
  }

  async #loadItems({ continues, continuesAt }: Continued): Promise<readonly Item[]> {
    return (await this.#inherited.load(continues, continuesAt)).items;
  }

  /** Starts a run and waits until it settles: until it has ended, or waits for a decision. See `createAgent`. */
  async run(
    input: string | readonly Item[],
    ...options: StartArguments<RunContext>
  ): Promise<Settled<Tools, Output>> {
    return await (await this.start(input, ...options)).settled();
  }

  /**
   * Runs the agent on each input and resolves to the results, in the order of the inputs. The same call after the process
   * was killed, or in another process, finds the runs by their `labels`, agent, input and run context: it returns the
   * results of those that have ended, continues the others, and starts each input once. Without `labels` all runs are
   * new.
   *
   * A run that fails or waits is a result. Rejects with the errors of the store and of `start`, once the runs in
   * progress have settled.
   *
   * @example
   * const results = await agent.map(documents, {
   *   labels: { job: 'summaries-2026-07' },
   *   concurrency: 4,
   *   limits: { cost: 5 },
   * });
   */
  async map<Input extends string | readonly Item[]>(
    inputs: readonly Input[],
    ...[options]: MapArguments<RunContext, Input>
  ): Promise<MapResult<Tools, Output>[]> {
    const parts = {
      agent: this.name,
      store: this.store,
      host: this.#host,
      limits: this.#definition.limits,
      start: (input: string | readonly Item[], given: StartOptions) => this.#start(input, given),
      open: (runId: string) => this.#attach(runId),
    };
    return await mapInputs<Tools, Output>(parts, inputs, options as MapOptions);
  }

  /**
   * Opens a run of this agent or a sub-agent without driving it. `settled()`, `resume()` and accepted commands
   * drive it unless another process does. Throws `run-unknown`; `run-foreign` for a run of another agent, and for one
   * that lacks one of `labels` or has it with another value; `chart-mismatch` for a run of an incompatible version (see
   * `check`).
   *
   * @example
   * const run = await agent.open(runId, { labels: { user: session.userId } });
   * await run.approve(callId, { by: 'ada' });
   * const settled = await run.settled();
   */
  async open(runId: string, options: OpenOptions = {}): Promise<Run<Tools, Output>> {
    refuseUnknownOptions('agent.open', options, OPEN_NAMES, 'input-invalid');
    if (options.labels !== undefined) await this.#assertLabels(runId, readLabels(options.labels));
    return await this.#attach(runId);
  }

  /**
   * The conversation with this id and exactly these labels: its messages, its runs, what they spent. There need not be a run
   * of it yet. Throws `input-invalid`.
   *
   * @example
   * const thread = agent.thread(chatId, { labels: { user: session.userId } });
   * for (const { role, content } of await thread.messages()) console.log(role, content);
   * await thread.delete();
   */
  thread(id: string, options: OpenOptions = {}): Thread<Run<Tools, Output>> {
    refuseUnknownOptions('agent.thread', options, OPEN_NAMES, 'input-invalid');
    return this.#threadOf(id, options);
  }

  #threadOf(id: string, { labels = {} }: OpenOptions): Thread<Run<Tools, Output>> {
    const { store } = this;
    const cancel = (record: RunRecord, by: string | undefined) => cancelToDelete(store, record, by);
    const filtersOf = (name: string) => {
      const named = agentNamed(this, name);
      return named && (named.options.textFilters ?? []);
    };
    const parts = { store, host: this.#host, filtersOf, cancel };
    return new Thread(readThreadId(id), readLabels(labels), {
      ...parts,
      open: runId => this.#attach(runId),
    });
  }

  /** Does not reveal which labels a run has. An unknown run passes. */
  async #assertLabels(runId: string, labels: Labels): Promise<void> {
    const record = await this.store.get(runId);
    if (record === undefined || hasLabels(record.labels, labels)) return;
    throw new EngineError(
      'run-foreign',
      `Run ${runId} does not have the labels ${JSON.stringify(labels)}. Open it with the labels that it was started with, or without any.`,
      { runId, labels: { ...labels } },
    );
  }

  /** Returns this agent or the sub-agent with this name. Throws `run-foreign` if there is none. */
  #agentNamed(name: string, runId: string): Agent {
    if (name === this.name) return this;
    const above = this.#subAgents.findAbove(name);
    if (above === undefined) throw foreignRun(runId, name, this.name);
    return above.#agentNamed(name, runId);
  }

  async #attach(runId: string, awaited: Pick<RunOptions, 'isAwaited'> = {}): Promise<Run<Tools, Output>> {
    const loaded = await this.#load(runId);
    const { agent } = loaded.state.context;
    const owner = this.#agentNamed(agent.name, runId);
    const inherited =
      loaded.inherited ?? (await this.#loadItems(loaded.state.context).catch(() => undefined));
    return Run.attach({ ...owner.#runOptions(runId), ...awaited }, loaded, inherited);
  }

  /**
   * Returns this agent as a tool for another agent: a sub-agent. Each call is a run of its own, in the store of
   * the calling run.
   *
   * @example
   * const librarian = createAgent({ name: 'librarian', tools: [search] });
   * const assistant = createAgent({
   *   name: 'assistant',
   *   model,
   *   tools: [librarian.asTool({ name: 'ask_librarian', description: 'Finds sources.' })],
   * });
   */
  asTool<const Name extends string, const Background extends boolean = false>(
    options: AsToolOptions<Name> & { background?: Background },
  ): SubAgentTool<Name, ResultOf<Background, SubAgentAnswer<Output>>, RunContext, Tools> {
    return asTool(this, async (input, given) => (await this.#start(input, given)).settled(), options);
  }

  /**
   * Calls the listener with every event of every run of this agent and its sub-agents, in any process, from now on, and
   * with the run's record. Each run's events come in order; what the listener throws disturbs no run. Returns what
   * removes the listener. Throws `agent-invalid` for a store without a feed.
   */
  on(listener: AgentListener | LastingListener): () => void {
    return this.#listeners.add(listener);
  }

  /** Reports whether a run is compatible with this release and this agent: the differences, and what to do. */
  async check(runId: string): Promise<VersionReport> {
    const owner = (await this.store.get(runId))?.agent ?? this.name;
    const below = owner === this.name ? undefined : this.#subAgents.findAbove(owner);
    if (below !== undefined) return await below.check(runId);
    const { name, version, models, migrations } = this.#definition;
    const present = {
      agent: { name, ...omitUndefined({ version }) },
      models: models.map(({ provider, model }) => ({ provider, model })),
      tools: await this.#tools.connect(),
    };
    return await checkRun(this.store, runId, present, migrations);
  }

  /**
   * Creates a run from one of an older version, with the agent's `migrations` and those of this release. The
   * old run is not changed, and the new one is not driven yet. `as` sets the id of the new run, which is needed
   * to migrate the same run again. Rejects, without writing, with the errors of `migrateRun`.
   */
  async migrate(runId: string, options: MigrateOptions = {}): Promise<Run<Tools, Output>> {
    const { migrations } = this.#definition;
    const assertOwn = (name: string) => void this.#agentNamed(name, runId);
    const parts = { store: this.store, host: this.#host, isDead: isOwnerDead, migrations, assertOwn };
    return await this.open(await migrateRun(parts, runId, options));
  }

  /**
   * Restores a run from the JSON of `run.snapshot()` into this agent's store and opens it. Throws
   * `input-invalid`; `snapshot-outdated` if the store has a later state of the run; `run-exists` if it has an
   * earlier one; `run-foreign` for a run of another agent.
   */
  async restore(snapshot: JsonValue): Promise<Run<Tools, Output>> {
    const runId = await restoreRun(snapshot, {
      store: this.store,
      assertOwn: (name, id) => void this.#agentNamed(name, id),
      loadInherited: continued => this.#loadItems(continued),
    });
    return await this.open(runId);
  }

  /** The chart, an XState v5 machine. To run it as an actor, provide it with `services()`. */
  get machine(): AgentMachine {
    return agentMachine;
  }

  /** Returns the input for `createActor(machine, { input })`. Throws the errors of `start` about options. */
  input(input: string | readonly Item[], options: LoopStart<RunContext> = {}): RunStarted {
    const runId = options.runId ?? this.#host.newId('run');
    const runContext = readRunContextNow(this.#definition, options.runContext);
    const tools = listTools(this.#definition.tools);
    return this.#describeStart(input, { ...knownInput('agent.input', options), runId, tools, runContext });
  }

  /**
   * Returns the actors for `agent.machine.provide({ actors })`.
   *
   * @example
   * const machine = agent.machine.provide({ actors: agent.services() });
   * createActor(machine, { input: agent.input('Refund order A-1001') }).start();
   */
  services(options: LiveOptions = {}): ServiceActors {
    return actorsOf(this.#services, { host: this.#host, ...options });
  }

  /** Removes the listeners and closes the tool servers of this agent and its sub-agents. The store stays open. */
  async close(): Promise<void> {
    this.#listeners.close();
    await Promise.all([this.#tools.close(), this.#subAgents.close()]);
  }

  /** Returns a copy of a sub-agent with this agent's store, durability and host. Model and prices are defaults. */
  #place(agent: Agent): Agent {
    const placed = placedOptions(agent.options, { ...this.#options, store: this.store });
    return new Agent(defineAgent(placed), placed, this.store, this);
  }

  /** For `chart-mismatch` the error includes the report of `check`, with the migrations of the run's agent. */
  async #load(runId: string): Promise<LoadedRun> {
    try {
      return await loadRun(this.store, runId);
    } catch (error) {
      const owner = (await this.store.get(runId))?.agent ?? this.name;
      const { migrations } = this.#agentNamed(owner, runId).#definition;
      if (!(error instanceof EngineError) || error.code !== 'chart-mismatch') throw error;
      const report = await checkRun(this.store, runId, undefined, migrations);
      throw report.opens ? error : versionMismatch(report);
    }
  }

  #describeStart(input: string | readonly Item[], start: ResolvedStart): RunStarted {
    const started = beginJournal(this.#definition, this.#host, input, start);
    this.#subAgents.assertBoundBy(started.config.limits);
    return started;
  }

  #runOptions(runId: string): RunOptions {
    const openParent = (id: string) => (this.#above ?? this).open(id);
    return {
      runId,
      store: this.store,
      ...driverOptions(this.#host),
      durability: this.#options.durability ?? 'strict',
      services: this.#services,
      explainMissingModel: context => explainMissingModel(this.#definition, context),
      connectTools: () => this.#tools.connect(),
      loadInherited: continued => this.#loadItems(continued),
      rules: this.#definition.rules,
      loadPast: async ({ continues, continuesAt }) =>
        (await this.#inherited.load(continues, continuesAt)).past,
      textFilters: this.#definition.textFilters,
      showText: text => filterText(text, this.#definition.textFilters),
      subAgents: this.#subAgents,
      watchers: () => [...(this.#options.watchers ?? []), ...this.#listeners.watchers()],
      ...omitUndefined({
        openParent,
        output: this.#definition.output,
        makeSupervisor: this.#options.makeSupervisor,
      }),
    };
  }
}

/** Whether the agent can still hand messages to the sub-agent with which the conversation is, and the input ends with one. */
function canHandOn(
  input: string | readonly Item[],
  handedTo: HandedTo | undefined,
  tools: ReadonlyMap<string, Tool>,
): boolean {
  if (handedTo === undefined || tools.get(handedTo.call.name)?.answers !== 'directly') return false;
  return typeof input === 'string' || input.at(-1)?.type === 'message';
}

/** Resolves once the run has ended, at the latest when its driver may take no longer, or if it cannot be cancelled. @internal */
export async function cancelToDelete(
  store: Store,
  { runId, agent }: RunRecord,
  by: string | undefined,
): Promise<void> {
  try {
    const run = await createAgent({ name: agent, store: nonDrivingStore(store) }).open(runId);
    await run.cancel({ reason: 'It is being deleted.', ...omitUndefined({ by }) });
    await run.settled();
  } catch (error) {
    if (!isThrown(error, EngineError)) throw error;
  }
}

/** Whether a value is an agent, also of another copy of this library. */
export function isAgent(value: unknown): value is Agent {
  return typeof value === 'object' && value !== null && AGENT in value;
}

/**
 * Creates an agent. Throws `agent-invalid` for invalid options.
 *
 * @example
 * const agent = createAgent({
 *   name: 'refunds',
 *   model: openaiResponses({ model: 'gpt-5-mini' }),
 *   instructions: 'You refund orders.',
 *   tools: [refund],
 *   store: sqlite('runs.db'),
 * });
 * const settled = await agent.run('Refund order A-1001');
 */
export function createAgent<
  Tools extends AgentTool = Tool,
  Output = undefined,
  RunContext = undefined,
  Given = RunContext,
>(
  options: AgentOptions<Tools, Output, RunContext, Given> & ContextCheck<Tools, RunContext>,
): Agent<Tools, Output, Given> {
  const bare = withHandoffs(knownAgentOptions(options as AgentOptions));
  return new Agent(defineAgent(bare), bare, bare.store ?? memory());
}
