import type { AgentDefinition } from '../../engine/definition.ts';
import { type Host, momentOf, systemHost } from '../../engine/driver/host.ts';
import { actorsOf, type LiveOptions, type ServiceActors } from '../../engine/driver/live.ts';
import { isOwnerDead, judgeOwnerName, makeOwner } from '../../engine/driver/owner.ts';
import { InheritedTranscripts } from '../../engine/journal/load-history.ts';
import { type LoadedRun, loadRun } from '../../engine/journal/load-run.ts';
import { Run } from '../../engine/run/run.ts';
import type { RunOptions } from '../../engine/run/run-options.ts';
import type { Settled } from '../../engine/run/settled.ts';
import { makeServices } from '../../engine/services/make-services.ts';
import type { Service } from '../../engine/services/service.ts';
import { type ChildRequest, narrowLimits } from '../../engine/sub-agents/child-runs.ts';
import { checkRun } from '../../engine/versions/check-run.ts';
import type { VersionReport } from '../../engine/versions/compare-versions.ts';
import { type MigrateOptions, migrateRun } from '../../engine/versions/migrate-run.ts';
import { versionMismatch } from '../../engine/versions/version-mismatch.ts';
import { type AgentMachine, agentMachine } from '../../machines/agent.ts';
import { initial } from '../../machines/step.ts';
import type { ServiceName } from '../../protocol/effect.ts';
import { EngineError } from '../../protocol/error.ts';
import type { RunStarted } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { given, type JsonValue } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import type { Tool } from '../../protocol/tool.ts';
import { memory } from '../../stores/memory.ts';
import { filterText } from '../../text/text-filter.ts';
import { connectTools, listTools } from '../connect-tools.ts';
import { type AgentOptions, defineAgent } from './agent-options.ts';
import { type AsToolOptions, asTool } from './as-tool.ts';
import { type Beginning, beginJournal, cancelOn, type StartOptions } from './begin-journal.ts';
import { restoreRun } from './restore-run.ts';
import { BEGIN_CHILD, foreignRun, type SubAgent, SubAgents } from './sub-agents.ts';

const LEASE_MS = 10_000;
const GRACE_MS = 5_000;

const AGENT = Symbol.for('agentchart.agent');

/** An agent: everything its runs have in common. Make one with `createAgent`. */
export class Agent implements SubAgent {
  readonly [AGENT] = true;
  readonly name: string;
  readonly store: Store;
  readonly #definition: AgentDefinition;
  readonly #options: AgentOptions;
  readonly #host: Host;
  readonly #durability: 'strict' | 'relaxed';
  readonly #services: Readonly<Record<ServiceName, Service>>;
  readonly #inherited: InheritedTranscripts;
  readonly #subAgents: SubAgents<Agent>;
  readonly #above: Agent | undefined;
  #connected: Promise<{ tools: ReadonlyMap<string, Tool>; close(): Promise<void> }> | undefined;

  /** `above`: the agent that has this one as a tool, and its runs in the same store. */
  constructor(definition: AgentDefinition, options: AgentOptions, store: Store, above?: Agent) {
    this.name = definition.name;
    this.store = store;
    this.#inherited = new InheritedTranscripts(store);
    this.#definition = definition;
    this.#options = options;
    this.#above = above;
    this.#host = options.host ?? systemHost;
    this.#durability = options.durability ?? 'strict';
    this.#inherited = new InheritedTranscripts(store);
    this.#subAgents = new SubAgents({ name: this.name, store, tools: definition.tools }, agent =>
      this.#place(agent),
    );
    this.#services = makeServices(definition, {
      connectTools: () => this.#connectTools(),
      children: this.#subAgents,
    });
  }

  /** What this agent was made of, to make another like it: `createAgent({ ...agent.options, store })`. */
  get options(): AgentOptions {
    return this.#options;
  }

  /**
   * Begins a run and drives it. Resolves once its first event is durable; rejects, with no run begun,
   * when the agent has no model or a tool server does not start.
   */
  async start(input: string | readonly Item[], options: StartOptions = {}): Promise<Run> {
    const { continues, signal } = options;
    if (continues !== undefined) await this.#inherited.assertEnded(continues);
    const run = await this.#begin(input, options);
    cancelOn(signal, run);
    return run;
  }

  async [BEGIN_CHILD]({ input, limits, isAwaited, ...request }: ChildRequest): Promise<Run> {
    const narrowed = narrowLimits(this.#definition.limits, limits);
    const known = await this.store.get(request.runId);
    try {
      if (known === undefined)
        return await this.#begin(input, { ...request, limits: narrowed }, { isAwaited });
    } catch (error) {
      if (!(error instanceof EngineError) || error.code !== 'run-exists') throw error;
    }
    return await this.#attach(request.runId, { isAwaited });
  }

  async #begin(
    input: string | readonly Item[],
    options: StartOptions & Pick<RunStarted, 'parent'>,
    awaited: Pick<RunOptions, 'isAwaited'> = {},
  ): Promise<Run> {
    const runId = options.runId ?? this.#host.newId('run');
    const inherited = await this.#inherited.load(options.continues ?? null);
    const tools = await this.#connectTools();
    const started = this.#describeStart(input, { ...options, runId, tools });
    const runOptions = { ...this.#runOptions(runId), ...awaited };
    const { owner, isDead, leaseMs } = runOptions;
    const leasedAt = momentOf(this.#host);
    const claim = { owner, isDead, leaseMs, now: leasedAt.wall };
    this.#host.reach?.('create.before');
    const { epoch, seq } = await this.store.create(started, claim);
    this.#host.reach?.('create.after');
    const loaded = { state: initial(started).state, seq, snapshotSeq: 0 };
    return Run.begin(runOptions, loaded, inherited, { epoch, leasedAt });
  }

  /** `start`, then `settled`. */
  async run(input: string | readonly Item[], options: StartOptions = {}): Promise<Settled> {
    const run = await this.start(input, options);
    return await run.settled();
  }

  /**
   * Attaches to a run of the store. `settled()`, `resume()` or an accepted command drives it if nobody else
   * does. A sub-agent's run is opened as well. A run of another agent is refused with `run-foreign`, one of
   * another chart or format with `chart-mismatch`: see `check`.
   */
  async open(runId: string): Promise<Run> {
    return await this.#attach(runId);
  }

  /** This agent, or the one below it that a run of the store belongs to. */
  async #ownerOf(runId: string): Promise<Agent> {
    return this.#agentNamed((await this.store.get(runId))?.agent ?? this.name, runId);
  }

  /** Throws `run-foreign` when neither this agent nor one below it has this name. */
  #agentNamed(name: string, runId: string): Agent {
    if (name === this.name) return this;
    const above = this.#subAgents.findAbove(name);
    if (above === undefined) throw foreignRun(runId, name, this.name);
    return above.#agentNamed(name, runId);
  }

  async #attach(runId: string, awaited: Pick<RunOptions, 'isAwaited'> = {}): Promise<Run> {
    const loaded = await this.#load(runId);
    const { agent, continues } = loaded.state.context;
    const owner = this.#agentNamed(agent.name, runId);
    const inherited = loaded.inherited ?? (await this.#inherited.load(continues).catch(() => undefined));
    return Run.attach({ ...owner.#runOptions(runId), ...awaited }, loaded, inherited);
  }

  /** The agent as a tool of others: a sub-agent. */
  asTool(options: AsToolOptions): Tool {
    return asTool(this, options);
  }

  /** How a run of the store stands to this program and this agent: what differs, and what to do about it. */
  async check(runId: string): Promise<VersionReport> {
    const owner = (await this.store.get(runId))?.agent ?? this.name;
    const below = owner === this.name ? undefined : this.#subAgents.findAbove(owner);
    if (below !== undefined) return await below.check(runId);
    const { name, version, models } = this.#definition;
    const present = {
      agent: { name, ...given({ version }) },
      models: models.map(({ provider, model }) => ({ provider, model })),
      tools: await this.#connectTools(),
    };
    return await checkRun(this.store, runId, present, this.#definition.migrations);
  }

  /**
   * A new run that goes on where an old one stands, made of its journal by the agent's `migrations` and
   * those of this release. The old journal stays as it is. Nobody drives the new run yet. `as`: its id, to
   * migrate a run a second time. Rejects, with nothing written, as `migrateRun` does.
   */
  async migrate(runId: string, options: MigrateOptions = {}): Promise<Run> {
    const { migrations } = this.#definition;
    const assertOwn = (name: string) => void this.#agentNamed(name, runId);
    const parts = { store: this.store, host: this.#host, isDead: isOwnerDead, migrations, assertOwn };
    return await this.open(await migrateRun(parts, runId, options));
  }

  /**
   * Goes on from the JSON of `run.snapshot()` alone, in this agent's store. Refused with
   * `snapshot-outdated` if the store knows a later state of that run, with `run-foreign` for another agent's.
   */
  async restore(snapshot: JsonValue): Promise<Run> {
    const runId = await restoreRun(snapshot, {
      store: this.store,
      assertOwn: (name, id) => void this.#agentNamed(name, id),
      loadInherited: continues => this.#inherited.load(continues),
    });
    return await this.open(runId);
  }

  /** The chart: an ordinary XState v5 machine. Provide it with `services()`. */
  get machine(): AgentMachine {
    return agentMachine;
  }

  /** The machine's input for `createActor`. */
  input(
    input: string | readonly Item[],
    options: Omit<StartOptions, 'signal' | 'continues'> = {},
  ): RunStarted {
    const runId = options.runId ?? this.#host.newId('run');
    return this.#describeStart(input, { ...options, runId, tools: listTools(this.#definition.tools) });
  }

  /** The actors for `agentMachine.provide({ actors })`. */
  services(options: LiveOptions = {}): ServiceActors {
    return actorsOf(this.#services, { host: this.#host, ...options });
  }

  /** Ends the tool servers this agent started. The store stays open. */
  async close(): Promise<void> {
    const connected = this.#connected;
    this.#connected = undefined;
    await Promise.all([(await connected)?.close(), this.#subAgents.close()]);
  }

  /** A sub-agent, on this agent's store and clock. What it lacks it has from this agent. */
  #place(agent: Agent): Agent {
    const { durability, host } = this.#options;
    const { options } = agent;
    const model = options.model ?? this.#options.model;
    const prices = options.prices ?? this.#options.prices;
    const placed: AgentOptions = {
      ...options,
      store: this.store,
      ...given({ model, prices, durability, host }),
    };
    return new Agent(defineAgent(placed), placed, this.store, this);
  }

  async #connectTools(): Promise<ReadonlyMap<string, Tool>> {
    this.#connected ??= connectTools(this.#definition.tools);
    const connected = this.#connected;
    try {
      return (await connected).tools;
    } catch (error) {
      if (this.#connected === connected) this.#connected = undefined;
      throw error;
    }
  }

  /** `chart-mismatch` tells all that `check` would. */
  async #load(runId: string): Promise<LoadedRun> {
    try {
      return await loadRun(this.store, runId);
    } catch (error) {
      const owner = await this.#ownerOf(runId);
      if (!(error instanceof EngineError) || error.code !== 'chart-mismatch') throw error;
      const report = await checkRun(this.store, runId, undefined, owner.#definition.migrations);
      throw report.opens ? error : versionMismatch(report);
    }
  }

  #describeStart(input: string | readonly Item[], beginning: Beginning): RunStarted {
    const started = beginJournal(this.#definition, this.#host, input, beginning);
    if (started.config.limits.cost !== undefined) this.#subAgents.assertPriced();
    return started;
  }

  #runOptions(runId: string): RunOptions {
    const above = this.#above;
    return {
      runId,
      store: this.store,
      host: this.#host,
      owner: makeOwner(this.#host.newId('driver')),
      isDead: isOwnerDead,
      judgeOwner: judgeOwnerName,
      leaseMs: this.#host.leaseMs ?? LEASE_MS,
      graceMs: GRACE_MS,
      durability: this.#durability,
      services: this.#services,
      connectTools: () => this.#connectTools(),
      loadInherited: continues => this.#inherited.load(continues),
      showText: text => filterText(text, this.#definition.textFilters),
      children: this.#subAgents,
      ...(above === undefined ? {} : { openParent: id => above.open(id) }),
    };
  }
}

export function isAgent(value: unknown): value is Agent {
  return typeof value === 'object' && value !== null && AGENT in value;
}

/** An agent from its options; throws `agent-invalid` for what cannot work. Without a `store`, runs live in memory. */
export function createAgent(options: AgentOptions): Agent {
  return new Agent(defineAgent(options), options, options.store ?? memory());
}
