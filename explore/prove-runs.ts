import { type Agent, isAgent } from '../agent/agent.ts';
import { defineAgent } from '../agent/agent-options.ts';
import { agentNamed, placedOptions } from '../agent/sub-agents.ts';
import { runSoon } from '../engine/host/host.ts';
import { readFromStart } from '../engine/journal/read-journal.ts';
import { previewMigration, successorOf } from '../engine/migrations/migrate-run.ts';
import type { AgentDefinition } from '../engine/services/definition.ts';
import { explainMissingModel } from '../engine/services/prepare-request.ts';
import { toolsIn } from '../engine/sub-agents/hand-back.ts';
import { type CallObstacle, findObstacle } from '../engine/versions/compare-versions.ts';
import type { Call } from '../machines/context.ts';
import { STATUS_WORDS } from '../machines/settled.ts';
import { compareChart } from '../machines/snapshot.ts';
import { hasEnded } from '../machines/status.ts';
import { type ChartState, statePath } from '../machines/step.ts';
import { digestCall } from '../protocol/content/digest.ts';
import { EngineError, invalidInput, messageOf } from '../protocol/error.ts';
import type { ChartEvent, RunStarted } from '../protocol/event.ts';
import { type JsonValue, omitUndefined } from '../protocol/json.ts';
import type { Stranding } from '../protocol/run-view.ts';
import type { RunRecord, Store } from '../protocol/store.ts';
import type { Tool } from '../protocol/tool.ts';
import { abstractState } from './abstract-state.ts';
import { listCalls, makeEnvironment } from './environment.ts';
import { beginExploration, type Exploration, type ExploreOptions, reportExploration } from './explore.ts';
import { readPast } from './explore-from.ts';
import type { PathEntry, Steps, WalkPlace, WalkWatcher } from './explorer.ts';
import { type ExplorationReport, reportPath, type UnfinishedWalks } from './report.ts';
import { ruledAgents } from './ruled-agents.ts';
import { walkDecisions } from './walks.ts';

/*
 * What becomes of stored runs once other agents take them. Each run is followed to where it stands, and what models,
 * tools and decisions can do from there is walked with these agents. Nothing is executed or written.
 *
 * P1 Runs that an exploration cannot tell apart are one group, which is explored once, from its first run. They stand in
 *    states that a walk would take for one, with the same configuration and gates, the same open calls by tool, and the
 *    same obstacles; and rules may still say the same. Limits count as a walk counts them: only how near they are, since
 *    every walk also begins right before each limit. One part is a heuristic: of a rule with many states, such as an amount
 *    that calls spend together, only what it says next makes a difference.
 * P2 For invariants of a module, which may read more, runs also differ by their calls with inputs and results, their
 *    counts and their run context. What else an invariant reads (times, texts, usage) is that of the first run.
 * P3 A run stops if it comes, on some path, to what the agents cannot do: a call that cannot run, a model that is missing,
 *    a broken invariant or rule; or if they do not take it at all.
 */

/** Runs of which the same becomes. */
export type RunGroup = {
  agent: string;
  /** Where they stand, such as `resting.awaitingApproval`. */
  state: string;
  /** Their open calls, each with its tool and what it does: `refund waiting for approval`. */
  calls: string[];
  count: number;
  /** The ids of the first 20. */
  runs: string[];
  /**
   * `continues`: nothing stops them; `migrates`: neither does anything once workers of these agents have migrated them;
   * `stops`: on some path they come to what these agents cannot do, or these agents do not take them.
   */
  verdict: 'continues' | 'migrates' | 'stops';
  /** Whether everything was walked. If not, what was left out may stop them. */
  complete: boolean;
  /** The number of states that were walked, for all of them together. */
  states: number;
  /** What stops or migrates them, or what was not walked. */
  why?: string;
  /** The shortest path found to what stops the first of them, from where it stands; absent if it stands there. */
  path?: PathEntry[];
};

const MOST_RUNS = 20;

/** A module of a deploy: its agent, and the invariants, samples and `never` that it exports. */
export type ProvedModule = {
  agent: Agent;
  exports?: Pick<ExploreOptions, 'invariants' | 'samples' | 'never' | 'runContext'>;
};

type KnownAgent = {
  agent: Agent;
  options: ExploreOptions;
  definition: AgentDefinition;
  tools: ReadonlyMap<string, Tool>;
  /** Tool servers are not connected, so that the agent may have other tools. */
  lacksTools: boolean;
};

export type ProveOptions = {
  store: Store;
  /** The most states that are walked for one group. */
  maxStates: number;
  /** Whether to start the agents' tool servers, to list their tools. */
  connects: boolean;
  /** Ends the exploration in progress early. */
  signal?: AbortSignal;
  /** Called with the number of states of all explorations so far. */
  onProgress?(states: number): void;
};

/** Throws `agent-invalid`, `input-invalid`, and the errors of tool servers. */
export async function beginProving(
  modules: readonly ProvedModule[],
  options: ProveOptions,
): Promise<{ prover: RunProver; close(): Promise<void> }> {
  const known = new Map<string, KnownAgent>();
  const closing: (() => Promise<void>)[] = [];
  const close = async () => void (await Promise.all(closing.map(end => end())));
  try {
    for (const { agent: top, exports = {} } of modules) {
      if (!isAgent(top)) throw invalidInput('Expected agents created by createAgent.');
      const { agents, close: closeTools } = await ruledAgents(top, options.store, options.connects);
      closing.push(closeTools);
      for (const { name, tools, lacks } of agents.values()) {
        const agent = agentNamed(top, name) ?? top;
        if (known.has(name)) continue;
        const own = agent === top ? exports : {};
        known.set(name, {
          agent,
          options: { ...own, ...(options.connects && { tools: [...tools.values()] }) },
          definition: defineAgent(placedOptions(agent.options, { ...top.options, store: options.store })),
          tools,
          lacksTools: lacks !== undefined,
        });
      }
    }
  } catch (error) {
    await close().catch(() => {});
    throw error;
  }
  return { prover: new RunProver(known, options), close };
}

type Proof = Omit<RunGroup, 'count' | 'runs'>;

/** Where a run belongs, and what becomes of its group if it is the first one there. */
type Placed = { key: string; prove(): Promise<Proof> };

type Journal = { started: RunStarted; past: ChartEvent[] };

export class RunProver {
  readonly #agents: ReadonlyMap<string, KnownAgent>;
  readonly #options: ProveOptions;
  readonly #groups = new Map<string, RunGroup>();
  #states = 0;

  constructor(agents: ReadonlyMap<string, KnownAgent>, options: ProveOptions) {
    this.#agents = agents;
    this.#options = options;
  }

  /** The number of groups. */
  get size(): number {
    return this.#groups.size;
  }

  /** What stops comes first, then what is not proved; each with the largest group first. */
  get groups(): RunGroup[] {
    const rank = ({ verdict, complete }: RunGroup) =>
      ['stops', false, true].indexOf(verdict === 'stops' ? verdict : complete);
    return [...this.#groups.values()].sort(
      (one, other) => rank(one) - rank(other) || other.count - one.count,
    );
  }

  /** Adds a run that has not ended. `stranding`: why workers of these agents do not drive it. Rejects with the errors of the store. */
  async take(record: RunRecord, stranding?: Stranding): Promise<void> {
    const { runId } = record;
    const placed = await this.#place(record, stranding);
    const known = placed && this.#groups.get(placed.key);
    if (known !== undefined) {
      known.count += 1;
      if (known.count <= MOST_RUNS) known.runs.push(runId);
    } else if (placed !== undefined) {
      const { agent, state, calls, ...proof } = await placed.prove();
      this.#groups.set(placed.key, { agent, state, calls, count: 1, runs: [runId], ...proof });
    }
    await new Promise<void>(runSoon);
  }

  /** `undefined` for a run that has ended since it was listed. */
  async #place(record: RunRecord, stranding: Stranding | undefined): Promise<Placed | undefined> {
    const { agent: name } = record;
    if (stranding?.type === 'stranded')
      return judge(record, { verdict: 'stops', why: `${stranding.reason}. ${stranding.advice}` });
    const known = this.#agents.get(name);
    if (stranding === undefined && (await this.#isMigrated(record)))
      return judge(record, { verdict: 'migrates', why: MIGRATED });
    if (known === undefined) return judge(record, { verdict: 'continues', why: OWN_TOOLS });
    const read = await this.#read(record, stranding);
    return 'key' in read ? read : await this.#placeJournal(record, read, known, stranding);
  }

  /** A run of another version that is not stranded has a successor. */
  async #isMigrated({ runId, agent, agentVersion, chart }: RunRecord): Promise<boolean> {
    const { version = agentVersion } = this.#agents.get(agent)?.definition ?? {};
    const isOfVersion = agentVersion === undefined || agentVersion === version;
    if (isOfVersion && (chart === undefined || compareChart(chart) === 'same')) return false;
    return (await this.#options.store.get(successorOf(runId))) !== undefined;
  }

  /** The journal with which the run continues. */
  async #read(record: RunRecord, stranding: Stranding | undefined): Promise<Journal | Placed> {
    const { runId, agent } = record;
    const { store } = this.#options;
    try {
      const { migrations = [] } = this.#agents.get(agent)?.definition ?? {};
      if (stranding !== undefined) return await previewMigration({ store, migrations }, runId);
      return readPast(await readFromStart(store, runId, 'Explore'));
    } catch (error) {
      const code = error instanceof EngineError ? error.code : '';
      if (code.startsWith('store-')) throw error;
      const message = messageOf(error);
      if (stranding !== undefined)
        return judge(record, { verdict: 'stops', why: `its migration fails: ${message}` });
      if (code === 'refused') return judge(record, { verdict: 'continues', complete: false, why: message });
      if (code === 'journal-damaged' || code === 'chart-mismatch')
        return judge(record, { verdict: 'stops', why: message });
      throw error;
    }
  }

  async #placeJournal(
    record: RunRecord,
    { started, past }: Journal,
    known: KnownAgent,
    stranding: Stranding | undefined,
  ): Promise<Placed | undefined> {
    const { maxStates, signal, onProgress } = this.#options;
    const watch = new Watch(known.definition);
    const options = {
      ...known.options,
      maxStates,
      // Time stands still until the signal.
      maxMs: 1,
      now: () => (signal?.aborted === true ? 1 : 0),
      onProgress: (states: number) => onProgress?.(this.#states + states),
    };
    let exploration: Exploration;
    try {
      exploration = beginExploration(known.agent, options, { started, past, onTaken: watch.take });
    } catch (error) {
      if (!(error instanceof EngineError) || error.code !== 'journal-damaged') throw error;
      return judge(record, { verdict: 'stops', why: error.message });
    }
    const { state } = exploration.explorer.start;
    if (hasEnded(state)) return undefined;
    const hindrances = await findHindrances(state, known);
    const unknown = known.lacksTools ? hindrances.filter(({ type }) => type === 'gone') : [];
    watch.begin(
      state,
      hindrances.filter(one => !unknown.includes(one)),
    );
    const why = hindrances.map(one => one.why);
    return {
      key: JSON.stringify([record.agent, identify(exploration), why, stranding?.reason]),
      prove: async () => {
        const { explorer, agent, invariants, budget } = exploration;
        const hasInvariants = invariants.length > 0;
        const unfinished = await takeTurns(walkDecisions(explorer, agent, { ...budget, hasInvariants }));
        const report = reportExploration(exploration, unfinished);
        this.#states += report.states;
        onProgress?.(this.#states);
        const unproved = [
          ...unknown.map(one => `${one.why}; ${CONNECT}`),
          ...(signal?.aborted === true && unfinished.length > 0 ? [ENDED] : unfinished.map(describe)),
        ];
        const complete = unproved.length === 0;
        const migrates = stranding && `${stranding.reason}. ${stranding.advice}`;
        const unstopped = migrates === undefined ? 'continues' : 'migrates';
        const [stop, ...others] = watch.list(exploration, report, complete);
        const whys = stop ? [stop, ...others].map(one => one.why) : [migrates ?? [], unproved].flat();
        return {
          agent: record.agent,
          state: statePath(state),
          calls: openCallsOf(state).map(({ status, name }) => `${name} ${STATUS_WORDS[status]}`),
          verdict: stop ? 'stops' : unstopped,
          complete,
          states: report.states,
          ...omitUndefined({ why: whys.length === 0 ? undefined : whys.slice(0, MOST_WHYS).join('; ') }),
          ...omitUndefined({ path: stop?.path }),
        };
      },
    };
  }
}

const OWN_TOOLS =
  'its tools come from the request that began it, and not from an agent of the deploy; not explored';
const MIGRATED = 'it was migrated: the run that continues it is judged apart from it';
const CONNECT = 'it may be one of a tool server: connect them (--connect) to find out';

const ENDED = 'the exploration was ended early';

const MOST_WHYS = 5;

/** How long an exploration runs before the rest of the process gets a turn, in ms. */
const TURN_MS = 50;

async function takeTurns<Result>(steps: Steps<Result>): Promise<Result> {
  for (let until = performance.now() + TURN_MS; ; ) {
    const step = steps.next();
    if (step.done === true) return step.value;
    if (performance.now() < until) continue;
    await new Promise<void>(runSoon);
    until = performance.now() + TURN_MS;
  }
}

/** Without an exploration. Runs of one state are one group if the same is said of them. */
function judge(
  { runId, agent, state }: RunRecord,
  said: Pick<Proof, 'verdict' | 'why'> & Partial<Proof>,
): Placed {
  const why = said.why?.replaceAll(runId, 'RUN');
  return {
    key: JSON.stringify([agent, state, said.verdict, why]),
    prove: async () => ({ agent, state, calls: [], complete: true, states: 0, ...said }),
  };
}

function describe({ paths, open, states, advice }: UnfinishedWalks): string {
  return `not walked: what follows ${open} of ${states} states (${paths}). ${advice}`;
}

function openCallsOf({ context }: ChartState): Call[] {
  return context.calls.filter(({ status }) => status !== 'settled');
}

/** All that makes a difference to what is walked: see P1 and P2. */
function identify({ agent, explorer, invariants }: Exploration): string {
  const { state, reference, followed } = explorer.start;
  const { context } = state;
  const { limits, ...config } = agent.config;
  const { turns: _, toolCalls: __, ...others } = limits;
  const isRead = invariants.length > 0;
  const open = openCallsOf(state);
  const calls = listCalls(agent);
  const repeatable = new Set([
    ...calls.map(({ name, input }) => digestCall(name, input)),
    ...open.map(({ digest, readDigest = digest }) => readDigest),
  ]);
  return JSON.stringify([
    config,
    {
      ...others,
      tokens: others.tokens !== undefined,
      cost: others.cost !== undefined,
      activeMs: others.activeMs !== undefined,
    },
    agent.tools.map(({ calls }) => calls.map(({ gates }) => gates)),
    abstractState(state, reference, isRead ? 'history' : 'chart', { ...makeEnvironment(agent), repeatable }),
    open.map(({ name, status, sideEffect, executedBy, gate, answers }) => [
      ...[name, status, sideEffect, executedBy, gate, answers],
    ]),
    agent.monitor && followed && agent.monitor.identify(followed, reference, calls),
    [context.people.starters.length > 0, context.people.senders.length > 0],
    isRead && [context.turns, context.toolCalls, context.runContext],
  ]);
}

/** What the agents cannot do. With a `callId`, the run comes to it once that call starts; otherwise it stands there. */
type Hindrance = { type: CallObstacle['type'] | 'engine' | 'context'; why: string; callId?: string };

async function findHindrances({ context }: ChartState, { tools }: KnownAgent): Promise<Hindrance[]> {
  const own = toolsIn(tools, context);
  const isPlayed = context.config.playsResultsOf !== undefined;
  const open = context.calls.filter(
    ({ status, doubt }) => status !== 'settled' && (!isPlayed || doubt !== undefined),
  );
  const found = await Promise.all([
    ...open.map(call => findCallHindrance(call, own.get(call.name))),
    ...[...tools].map(([name, tool]) => findContextHindrance(name, tool, context.runContext)),
  ]);
  return found.filter(hindrance => hindrance !== undefined);
}

async function findCallHindrance(call: Call, tool: Tool | undefined): Promise<Hindrance | undefined> {
  const { callId, name, executedBy, status } = call;
  const about = `an open call of ${name}`;
  if (executedBy === 'client') {
    if (tool?.run === undefined) return undefined;
    return { type: 'engine', why: `${about} waits for a client, and the agent runs this tool itself now` };
  }
  // The run of a sub-agent has the input already.
  const isBelow = status === 'waiting';
  const obstacle = isBelow && tool !== undefined ? null : await findObstacle(call, tool);
  if (obstacle === null) return undefined;
  const { type } = obstacle;
  return { type, why: `${about} cannot run: ${explain(obstacle)}`, ...(!isBelow && { callId }) };
}

function explain(obstacle: CallObstacle): string {
  switch (obstacle.type) {
    case 'gone':
      return 'the agent has no such tool';
    case 'client':
      return 'the client runs this tool now';
    case 'changed':
      return 'its server has changed the definition of the tool';
    case 'input':
      return `its input is not valid: ${obstacle.message}`;
  }
}

async function findContextHindrance(
  name: string,
  tool: Tool,
  runContext: JsonValue | undefined,
): Promise<Hindrance | undefined> {
  const validation = await tool.validateRunContext?.(runContext);
  if (validation === undefined || validation.valid) return undefined;
  return { type: 'context', why: `tool ${name} does not accept the run context: ${validation.message}` };
}

type LastStep = { before: WalkPlace; event: ChartEvent };

/** What stops a run: `path` from where it stands; absent if it stands there. */
type Stop = { why: string; path?: PathEntry[] };

/** Watches a walk for what the agents cannot do. */
class Watch {
  readonly #definition: AgentDefinition;
  #hindrances: readonly Hindrance[] = [];
  /** By what cannot be done, the shortest way to it; `null` where the run stands. */
  readonly #reached = new Map<string, LastStep | null>();

  constructor(definition: AgentDefinition) {
    this.#definition = definition;
  }

  begin(state: ChartState, hindrances: readonly Hindrance[]): void {
    this.#hindrances = hindrances;
    for (const { callId, why } of hindrances) if (callId === undefined) this.#reached.set(why, null);
    const missing = this.#explainModel(state);
    if (missing !== undefined) this.#reached.set(missing, null);
  }

  take: NonNullable<WalkWatcher['onTaken']> = (before, event, { state }) => {
    const started = event.type === 'tool.started' ? event.callId : undefined;
    for (const { callId, why } of this.#hindrances)
      if (callId !== undefined && callId === started) this.#reach(why, { before, event });
    const missing = this.#explainModel(state);
    if (missing !== undefined) this.#reach(missing, { before, event });
  };

  #reach(why: string, step: LastStep): void {
    const known = this.#reached.get(why);
    if (known === undefined || (known !== null && step.before.depth < known.before.depth))
      this.#reached.set(why, step);
  }

  /** Why the turn that a state is in has no model. An agent without models gets one when it resumes a run. */
  #explainModel(state: ChartState): string | undefined {
    const { models } = this.#definition;
    if (hasEnded(state) || !statePath(state).startsWith('turn')) return undefined;
    if (models.length === 0 && state.context.config.forkModel === undefined) return undefined;
    return explainMissingModel(this.#definition, state.context)?.reason;
  }

  /** The nearest first. What no complete walk came to stops nothing. */
  list({ explorer }: Exploration, { breaches, rules }: ExplorationReport, complete: boolean): Stop[] {
    const reached = [...this.#reached].map(
      ([why, step]): Stop => ({ why, ...(step && { path: reportPath(step.before, step.event, explorer) }) }),
    );
    const unreached = this.#hindrances.filter(({ why }) => !complete && !this.#reached.has(why));
    const broken = [
      ...breaches.map(({ invariant, message, path }): Stop => ({ why: `${invariant}: ${message}`, path })),
      ...rules.flatMap(({ name, verdict, only, message, path }): Stop[] =>
        verdict === 'broken' && only === undefined
          ? [{ why: `rule ${name}: ${message}`, ...omitUndefined({ path }) }]
          : [],
      ),
    ];
    const found = [...reached, ...broken]
      .map(({ why, path = [] }) => ({ why, path: path.slice(1) }))
      .sort((one, other) => one.path.length - other.path.length)
      .map(({ why, path }): Stop => ({ why, ...(path.length > 0 && { path }) }));
    return [...found, ...unreached.map(({ why }) => ({ why }))];
  }
}
