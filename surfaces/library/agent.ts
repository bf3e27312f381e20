import { type AgentDefinition, runConfigOf } from '../../engine/definition.ts';
import { type Host, systemHost } from '../../engine/host.ts';
import { loadInherited } from '../../engine/inherit.ts';
import { actorsOf, type LiveOptions, type ServiceActors } from '../../engine/live.ts';
import { loadRun, makeImage, readImage, statusOf } from '../../engine/load-run.ts';
import { isOwnerDead, makeOwner } from '../../engine/owner.ts';
import { Run, type RunOptions } from '../../engine/run.ts';
import type { Service } from '../../engine/service.ts';
import { makeFinishers } from '../../engine/services/finishers.ts';
import { makeModelTurn } from '../../engine/services/model-turn.ts';
import { timer } from '../../engine/services/timer.ts';
import { makeToolBatch } from '../../engine/services/tool-batch.ts';
import type { Settled } from '../../engine/settled.ts';
import { filterText } from '../../engine/text-filter.ts';
import { type AgentMachine, agentMachine } from '../../machines/agent.ts';
import { chartIdentity, fromStored } from '../../machines/snapshot.ts';
import { initial } from '../../machines/step.ts';
import type { Limits } from '../../protocol/config.ts';
import type { ServiceName } from '../../protocol/effect.ts';
import { EngineError } from '../../protocol/error.ts';
import { JOURNAL_FORMAT, type RunStarted } from '../../protocol/event.ts';
import { type Item, itemSchema } from '../../protocol/item.ts';
import { isJsonObject, type JsonValue } from '../../protocol/json.ts';
import { userMessage } from '../../protocol/message.ts';
import type { Store } from '../../protocol/store.ts';
import type { Tool } from '../../protocol/tool.ts';
import { connectTools } from '../../tools/connect-tools.ts';
import { type AgentOptions, checkLimits, checkPrices, dropUndefined } from './agent-options.ts';

export type StartOptions = {
  /** Stream the model's turns. Default true; the journal is the same either way. */
  stream?: boolean;
  /** A run that has ended: the new one's transcript begins with its. */
  continues?: string;
  limits?: Partial<Limits>;
  onLimit?: 'answer' | 'stop';
  /** Begin paused: nothing is spent before `step()` or `unpause()`. */
  paused?: boolean;
  /** While it is paused the run rests before its end too, so that its last turn can be looked at and answered. */
  holdsAtEnd?: boolean;
  /** Cancels the run when aborted. */
  signal?: AbortSignal;
  runId?: string;
  /** What another process needs to make this agent again: the CLI's `--agent` and model. */
  launch?: { module?: string; model?: string; request?: JsonValue };
};

const LEASE_MS = 10_000;
const GRACE_MS = 5_000;

const AGENT = Symbol.for('agentchart.agent');

/** An agent: everything its runs have in common. Make one with `createAgent`. */
export class Agent {
  readonly [AGENT] = true;
  readonly name: string;
  readonly store: Store;
  readonly #definition: AgentDefinition;
  readonly #options: AgentOptions;
  readonly #host: Host;
  readonly #durability: 'strict' | 'relaxed';
  readonly #services: Readonly<Record<ServiceName, Service>>;
  readonly #inherited = new Map<string, Promise<readonly Item[]>>();
  #connected: Promise<{ tools: ReadonlyMap<string, Tool>; close(): Promise<void> }> | undefined;

  constructor(definition: AgentDefinition, options: AgentOptions, store: Store) {
    this.name = definition.name;
    this.store = store;
    this.#definition = definition;
    this.#options = options;
    this.#host = options.host ?? systemHost;
    this.#durability = options.durability ?? 'strict';
    this.#services = this.#makeServices();
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
    const runId = options.runId ?? this.#host.newId('run');
    if (continues !== undefined) await this.#assertEnded(continues);
    const inherited = await this.#loadInherited(continues ?? null);
    await this.#connectTools();
    const started = this.#makeStarted(input, { ...options, runId });
    const runOptions = this.#runOptions(runId);
    const { owner, isDead, leaseMs } = runOptions;
    const claim = { owner, isDead, leaseMs, now: this.#host.now() };
    const { epoch, seq } = await this.store.create(started, claim);
    const loaded = { state: initial(started).state, seq, snapshotSeq: 0 };
    const run = Run.begin(runOptions, loaded, inherited, epoch);
    this.#cancelOn(signal, run);
    return run;
  }

  /** `start`, then `settled`. */
  async run(input: string | readonly Item[], options: StartOptions = {}): Promise<Settled> {
    const run = await this.start(input, options);
    return await run.settled();
  }

  /** Attaches to a run of the store. `settled()`, `resume()` or an accepted command drives it if nobody else does. */
  async open(runId: string): Promise<Run> {
    const loaded = await loadRun(this.store, runId);
    const { continues } = loaded.state.context;
    const inherited = loaded.inherited ?? (await this.#loadInherited(continues).catch(() => undefined));
    return Run.attach(this.#runOptions(runId), loaded, inherited);
  }

  /**
   * Goes on from the JSON of `run.snapshot()` alone, in this agent's store. Refused with
   * `snapshot-outdated` if the store knows a later state of that run.
   */
  async restore(snapshot: JsonValue): Promise<Run> {
    const { runId, seq, image } = readSnapshot(snapshot);
    const known = await this.store.get(runId);
    if (known === undefined) await this.#adopt(runId, seq, image);
    else if (known.seq !== seq) throw describeMismatch(runId, known.seq, seq);
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
    return this.#makeStarted(input, { ...options, runId: options.runId ?? this.#host.newId('run') });
  }

  /** The actors for `agentMachine.provide({ actors })`. */
  services(options: LiveOptions = {}): ServiceActors {
    return actorsOf(this.#services, { host: this.#host, ...options });
  }

  /** Ends the tool servers this agent started. The store stays open. */
  async close(): Promise<void> {
    const connected = this.#connected;
    this.#connected = undefined;
    await (await connected)?.close();
  }

  #makeServices(): Readonly<Record<ServiceName, Service>> {
    const { models, instructions, settings, providerOptions, prepareTurn, textFilters, retry, output } =
      this.#definition;
    const connect = () => this.#connectTools();
    return {
      modelTurn: makeModelTurn({
        models,
        connectTools: connect,
        settings,
        textFilters,
        retry,
        ...(instructions === undefined ? {} : { instructions }),
        ...(providerOptions === undefined ? {} : { providerOptions }),
        ...(prepareTurn === undefined ? {} : { prepareTurn }),
        ...(output === undefined ? {} : { output: output.format }),
      }),
      toolBatch: makeToolBatch({
        connectTools: connect,
        concurrency: this.#definition.toolConcurrency,
        retryBaseMs: retry.baseMs,
      }),
      timer,
      finishers: makeFinishers(this.#definition.finishers, output),
    };
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

  #makeStarted(input: string | readonly Item[], options: StartOptions & { runId: string }): RunStarted {
    const { name, version, models, prices } = this.#definition;
    if (models.length === 0) {
      throw new EngineError(
        'model-missing',
        `Agent "${name}" has no model. Give it one, or set AGENTCHART_MODEL, such as openai:gpt-5-mini.`,
      );
    }
    const config = runConfigOf(this.#definition, {
      limits: dropUndefined(options.limits ?? {}),
      ...(options.onLimit === undefined ? {} : { onLimit: options.onLimit }),
      ...(options.holdsAtEnd === undefined ? {} : { holdsAtEnd: options.holdsAtEnd }),
    });
    checkLimits(config.limits);
    checkPrices(config.limits, prices, models);
    return {
      type: 'run.started',
      at: this.#host.now(),
      runId: options.runId,
      format: JOURNAL_FORMAT,
      chart: chartIdentity(),
      agent: { name, ...(version === undefined ? {} : { version }) },
      config,
      input: this.#readInput(input),
      stream: options.stream ?? true,
      ...(options.paused === true ? { paused: true } : {}),
      ...(options.continues === undefined ? {} : { continues: options.continues }),
      ...(options.launch === undefined ? {} : { launch: options.launch }),
    };
  }

  #readInput(input: string | readonly Item[]): Item[] {
    const items = typeof input === 'string' ? [userMessage(input)] : input.map(readItem);
    return items.map(item => (item.id === undefined ? { ...item, id: this.#host.newId('item') } : item));
  }

  #runOptions(runId: string): RunOptions {
    return {
      runId,
      store: this.store,
      host: this.#host,
      owner: makeOwner(this.#host.newId('driver')),
      isDead: isOwnerDead,
      leaseMs: LEASE_MS,
      graceMs: GRACE_MS,
      durability: this.#durability,
      services: this.#services,
      connectTools: () => this.#connectTools(),
      loadInherited: continues => this.#loadInherited(continues),
      showText: text => filterText(text, this.#definition.textFilters),
    };
  }

  /** Ended runs never change, so what is inherited is read once. */
  #loadInherited(continues: string | null): Promise<readonly Item[]> {
    if (continues === null) return Promise.resolve([]);
    const known = this.#inherited.get(continues);
    if (known !== undefined) return known;
    const loading = loadInherited(this.store, continues, id => this.#inherited.get(id));
    this.#inherited.set(continues, loading);
    loading.catch(() => this.#inherited.delete(continues));
    return loading;
  }

  async #assertEnded(runId: string): Promise<void> {
    const record = await this.store.get(runId);
    if (record === undefined)
      throw new EngineError('run-unknown', `The store has no run ${runId} to continue.`);
    if (record.status !== 'running' && record.status !== 'waiting') return;
    throw new EngineError(
      'refused',
      `Run ${runId} has not ended yet (${record.status}): send it the message instead.`,
    );
  }

  async #adopt(runId: string, seq: number, image: JsonValue): Promise<void> {
    const { state, inherited } = readImage(image, runId);
    const restored = fromStored(state);
    const { context } = state;
    const older = inherited ?? (await this.#loadInherited(context.continues));
    await this.store.adopt({
      runId,
      agent: context.agent.name,
      status: statusOf(restored),
      createdAt: context.startedAt,
      seq,
      state: makeImage(restored, older),
    });
  }

  #cancelOn(signal: AbortSignal | undefined, run: Run): void {
    if (signal === undefined) return;
    const cancel = () => void run.cancel({ reason: 'aborted by the caller' }).catch(() => {});
    if (signal.aborted) return cancel();
    signal.addEventListener('abort', cancel, { once: true });
    run.settled().then(
      ({ status }) => {
        if (status !== 'waiting') signal.removeEventListener('abort', cancel);
      },
      () => {},
    );
  }
}

export function isAgent(value: unknown): value is Agent {
  return typeof value === 'object' && value !== null && AGENT in value;
}

function describeMismatch(runId: string, stored: number, snapshot: number): EngineError {
  const where = `The store has run ${runId} up to event ${stored}, the snapshot up to ${snapshot}.`;
  return stored > snapshot
    ? new EngineError('snapshot-outdated', `${where} Use agent.open('${runId}').`, { stored, snapshot })
    : new EngineError('run-exists', `${where} Restore it into a store that does not have this run.`, {
        stored,
        snapshot,
      });
}

function readItem(item: unknown, index: number): Item {
  const parsed = itemSchema.safeParse(item);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const where = [index, ...(issue?.path ?? [])].join('.');
  throw new EngineError(
    'input-invalid',
    `Item ${where} of the input is not valid: ${issue?.message ?? 'unknown'}`,
  );
}

function readSnapshot(snapshot: JsonValue): { runId: string; seq: number; image: JsonValue } {
  if (isJsonObject(snapshot)) {
    const { runId, seq, image } = snapshot;
    if (typeof runId === 'string' && typeof seq === 'number' && image !== undefined)
      return { runId, seq, image };
  }
  throw new EngineError(
    'input-invalid',
    'This is not a snapshot of a run: expected the JSON of run.snapshot().',
  );
}
