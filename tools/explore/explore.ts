/**
 * `explore()`: a model checker for an agent. `explorer.ts` walks the chart breadth first and checks every step.
 * `environment/` decides what the model, the tools and people may do; `events/` lists the events to offer in a
 * state, valid and invalid; `reference/` computes from the events alone what the run should be; `invariants/`
 * compares the two.
 */
import { type AgentMachine, agentMachine } from '../../machines/agent.ts';
import { chartIdentity } from '../../machines/snapshot.ts';
import { listEdges } from '../../machines/step.ts';
import { EngineError } from '../../protocol/error.ts';
import { JOURNAL_FORMAT, type RunStarted } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { userMessage } from '../../protocol/message.ts';
import type { Tool } from '../../protocol/tool.ts';
import { type Agent, isAgent } from '../agent/agent.ts';
import type { Detail } from './abstract-state.ts';
import { describeAgent, type ExploredAgent, type ToolSamples } from './describe-agent.ts';
import { Drive } from './environment/drive.ts';
import type { Environment } from './environment/environment.ts';
import { listKinds, makeEnvironment } from './environment/environments.ts';
import { START } from './events/make-events.ts';
import { type Breach, Explorer, type Place, type Walk } from './explorer.ts';
import { findStuckPlaces } from './find-stuck-places.ts';
import { BUILT_IN } from './invariants/explorer-invariants.ts';
import { type Invariants, type NamedInvariant, nameInvariants } from './invariants/invariant.ts';
import { nameEdge } from './name-edge.ts';
import { type ExplorationReport, reportBreach } from './report.ts';

export type ExploreOptions = {
  /** The chart with changed actions or guards: `agentMachine.provide({ actions, guards })`. */
  machine?: AgentMachine;
  /** Your invariants, checked at every step in addition to the built-in ones. */
  invariants?: Invariants;
  /** The maximum of states to visit. Default 12,000. Given without `maxMs`, it is the only bound. */
  maxStates?: number;
  /**
   * The maximum time in ms; `Infinity` for no bound. Default 3,000 unless `maxStates` is given, so that an exploration
   * ends within the five seconds that vitest gives a test.
   */
  maxMs?: number;
  /** The clock for `maxMs`: ms from any fixed time. Default: `performance.now`. */
  now?(): number;
  /** The tools of the agent's sources. The caller connects them; `explore` connects to nothing. */
  tools?: readonly Tool[];
  /** Inputs and outputs by tool name. Default: inputs generated from the JSON Schema, and the output `'done'`. */
  samples?: Readonly<Record<string, ToolSamples>>;
  /** A sample of the run context. Required for an agent that has one. */
  runContext?: unknown;
  /** Called every 250 states with the number of states so far. */
  onProgress?(states: number): void;
};

const CAN_END = 'every run can end without being cancelled';

const DEFAULT_MAX_STATES = 12_000;
const DEFAULT_MAX_MS = 3_000;

/**
 * Walks the paths of the chart with this agent's tools, approvals and limits, and checks every step. Executes
 * nothing: no model, tool or tool server, and only approval functions marked `pure`. Each breach is reported with the shortest path
 * found to it. Throws an `EngineError` `input-invalid` for invalid options.
 *
 * @example
 * const { breaches } = explore(agent, {
 *   invariants: {
 *     'at most 12 turns': ({ context }) => context.turns <= 12,
 *   },
 * });
 * expect(breaches).toEqual([]);
 */
export function explore(agent: Agent, options: ExploreOptions = {}): ExplorationReport {
  const { machine = agentMachine, maxStates = DEFAULT_MAX_STATES, onProgress } = options;
  const { maxMs = options.maxStates === undefined ? DEFAULT_MAX_MS : Number.POSITIVE_INFINITY } = options;
  const { now = () => performance.now() } = options;
  const budget: Budget = { maxStates, now, until: now() + maxMs };
  if (!isAgent(agent)) throw new EngineError('input-invalid', 'Expected an agent created by createAgent.');
  if (!Number.isInteger(maxStates) || maxStates < 1)
    throw new EngineError('input-invalid', `Expected maxStates to be a positive integer, got ${maxStates}.`);
  if (typeof maxMs !== 'number' || !(maxMs > 0))
    throw new EngineError('input-invalid', `Expected maxMs to be a number of ms above 0, got ${maxMs}.`);
  if (typeof machine?.transition !== 'function')
    throw new EngineError(
      'input-invalid',
      'Expected machine to be agentMachine.provide({ actions, guards }).',
    );
  const invariants = nameInvariants(options.invariants ?? {});
  const taken = invariants.find(({ name }) => BUILT_IN.includes(name) || name === CAN_END);
  if (taken !== undefined)
    throw new EngineError(
      'input-invalid',
      `Expected another name for the invariant "${taken.name}": a built-in invariant has this name.`,
    );
  const { tools, samples, runContext } = options;
  const explored = describeAgent(agent, omitUndefined({ connected: tools, samples, runContext }));
  const explorer = new Explorer(machine, makeStarted(explored), invariants, {
    onPlace: states => {
      if (states % PROGRESS_STEP === 0) onProgress?.(states);
    },
  });
  const unfinished = walkAll(explorer, explored, { ...budget, hasInvariants: invariants.length > 0 });
  if (machine !== agentMachine) unfinished.push(...walkChangedChart(explorer, explored, budget));
  return makeReport(explorer, explored, unfinished, { machine, invariants });
}

const PROGRESS_STEP = 250;

/** What an exploration may spend: states, and the time until which it may walk. */
type Budget = { maxStates: number; now(): number; until: number };

/** The end of a share of the remaining time, as `isOver` of a walk. */
function shareOf({ now, until }: Budget, share: number): () => boolean {
  const end = now() + (until - now()) * share;
  return () => now() >= end;
}

/** One walk: where it starts, what may happen, which states count as equal, and its share of the remaining states. */
type Plan = {
  /** Names the walk in the report's notes. */
  name: string;
  from?: readonly Place[];
  environment: Environment;
  detail: Detail;
  share: number;
};

/** Runs all walks. Returns a note for each that stopped before it was complete. */
function walkAll(explorer: Explorer, agent: ExploredAgent, options: WalkAllOptions): string[] {
  const unfinished = new Map<string, Walk[]>();
  for (const { name, from = [explorer.start], environment, detail, share } of listPlans(
    explorer,
    agent,
    options,
  )) {
    const remaining = options.maxStates - explorer.coverage.states;
    const mostPlaces = Math.max(1, Math.floor(remaining * share));
    const isOver = shareOf(options, share);
    const walk = explorer.walk(from, { environment, detail, mostPlaces, isOver });
    if (walk.isComplete) reportStuckPlace(explorer, walk);
    else unfinished.set(name, [...(unfinished.get(name) ?? []), walk]);
  }
  return [...unfinished].map(([name, walks]) => describeUnfinished(name, walks));
}

/** Names the walk, the bound that stopped it, and how much it left out. */
function describeUnfinished(name: string, walks: readonly Walk[]): string {
  const places = walks.reduce((sum, walk) => sum + walk.places.length, 0);
  const left = walks.reduce((sum, { unexpanded }) => sum + unexpanded, 0);
  const isLate = walks.some(({ stoppedBy }) => stoppedBy === 'time');
  const bound = isLate ? 'the time limit (maxMs)' : 'the maximum of states';
  return `Incomplete: ${name}. The walk stopped at ${bound}: what follows ${left} of its ${places} states was left out.`;
}

type WalkAllOptions = Budget & { hasInvariants: boolean };

/** Yields the walks in order. A generator: the later ones depend on what the invariants read during the earlier ones. */
function* listPlans(
  explorer: Explorer,
  agent: ExploredAgent,
  { hasInvariants }: WalkAllOptions,
): Generator<Plan> {
  const environment = makeEnvironment(agent, hasInvariants);
  const detail = hasInvariants ? 'calls' : 'chart';
  const kinds = listKinds(agent);
  const singles = kinds.map(call => [call]);
  const pairs = kinds.flatMap((call, index) => (index === 0 || call.gate ? [[call, call]] : []));
  const narrow: Environment = {
    ...environment,
    firstRounds: [...singles, ...pairs],
    rounds: [...singles, ...pairs],
    invalidEvents: false,
    sticky: false,
    mostUnread: 2,
  };
  const withEdits: Environment = { ...narrow, firstRounds: singles, rounds: singles, edits: true };
  const withBreakpoints: Environment = { ...withEdits, edits: false, breakpoints: true };
  const withoutClients: Environment = { ...environment, clientEvents: false };

  const drive = new Drive(explorer, agent, environment);
  drive.goDeep();
  drive.tryProbes();
  const near = drive.listPlacesNearLimits();

  const pastLimits = { name: 'paths past the limits', detail: 'chart', share: 0.4 } as const;
  yield { ...pastLimits, from: near, environment: narrow };
  for (const costly of listCostlyEnvironments(agent, narrow)) yield { ...pastLimits, environment: costly };
  yield { name: 'edits of the transcript', environment: withEdits, detail: 'chart', share: 0.2 };
  yield {
    name: 'everything that tools and approvals can do',
    environment: withoutClients,
    detail,
    share: 0.4,
  };
  if (hasInvariants && explorer.readsHistory) {
    yield {
      name: 'paths that differ by earlier rounds',
      environment: { ...withoutClients, invalidEvents: false, sticky: false },
      detail: 'history',
      share: 0.5,
    };
  }
  yield { name: 'breakpoints', environment: withBreakpoints, detail: 'chart', share: 0.2 };
  yield { name: 'all choices from the start', environment, detail, share: 1 };
}

/** The share of `maxStates` for each of the two additional walks of a changed chart. */
const CHANGED_SHARE = 0.3;

/**
 * Walks a chart with changed actions or guards again, with finer states: it could distinguish what the
 * unchanged chart cannot. These walks are rarely complete.
 */
function walkChangedChart(explorer: Explorer, agent: ExploredAgent, budget: Budget): string[] {
  const environment = makeEnvironment(agent, false);
  const kinds = listKinds(agent);
  const gated = kinds.filter(({ gate }) => gate);
  const rounds = [
    ...kinds.map(call => [call]),
    ...gated.flatMap(call => [
      [call, call],
      [call, call, call],
    ]),
  ];
  const wide: Environment = {
    ...environment,
    firstRounds: rounds,
    rounds,
    invalidEvents: false,
    mostUnread: 2,
  };
  const deep: Environment = { ...wide, clientEvents: false, sticky: false, endings: ['stop'], cutOff: [] };
  const walks = [deep, wide].map(variant =>
    explorer.walk([explorer.start], {
      environment: variant,
      detail: 'changed',
      mostPlaces: Math.max(1, Math.floor(budget.maxStates * CHANGED_SHARE)),
      isOver: shareOf(budget, 1 - CHANGED_SHARE),
    }),
  );
  return walks.every(({ isComplete }) => isComplete)
    ? []
    : [describeUnfinished('paths that only a changed chart could distinguish', walks)];
}

/** Environments in which one turn reaches the limit of tokens, cost or active time. */
function listCostlyEnvironments({ config }: ExploredAgent, environment: Environment): Environment[] {
  const { tokens, cost, activeMs } = config.limits;
  const rest = { outputTokens: 0, cachedInputTokens: null, cacheWriteTokens: null, reasoningTokens: null };
  const environments: Environment[] = [];
  if (tokens !== undefined)
    environments.push({ ...environment, usage: { inputTokens: Math.ceil(tokens), ...rest } });
  if (cost !== undefined) {
    const price = config.prices?.[config.models[0]?.model ?? '']?.input ?? 0;
    const inputTokens = price > 0 ? Math.ceil((cost * 1_000_000) / price) : 0;
    environments.push({ ...environment, usage: { inputTokens, ...rest } });
  }
  if (activeMs !== undefined) environments.push({ ...environment, turnMs: Math.ceil(activeMs) });
  return environments;
}

function reportStuckPlace(explorer: Explorer, walk: Walk): void {
  if (explorer.breaches.size > 0) return;
  const [stuck] = findStuckPlaces(walk).sort((one, other) => one.depth - other.depth);
  if (stuck === undefined) return;
  const { from, depth } = stuck;
  const breach: Breach = {
    invariant: CAN_END,
    message: 'from here only cancelling ends the run',
    before: from?.place ?? stuck,
    event: from?.event ?? null,
    depth,
  };
  explorer.breaches.set(CAN_END, breach);
}

function makeStarted({ name, version, config, runContext }: ExploredAgent): RunStarted {
  return {
    type: 'run.started',
    at: START,
    runId: 'run_explored',
    format: JOURNAL_FORMAT,
    chart: chartIdentity(),
    agent: { name, ...omitUndefined({ version }) },
    config,
    input: [userMessage('begin')],
    stream: true,
    ...omitUndefined({ runContext }),
  };
}

function makeReport(
  explorer: Explorer,
  agent: ExploredAgent,
  unfinished: readonly string[],
  { machine, invariants }: { machine: AgentMachine; invariants: readonly NamedInvariant[] },
): ExplorationReport {
  const { states, steps, crashPoints, decisions, edges } = explorer.coverage;
  const all = [...new Set(listEdges(machine).map(nameEdge))];
  const missing = all.filter(edge => !edges.has(edge));
  const breaches = [...explorer.breaches.values()].sort((one, other) => one.depth - other.depth);
  return {
    agent: agent.name,
    complete: unfinished.length === 0,
    states,
    edges: { taken: all.length - missing.length, total: all.length, missing },
    crashPoints,
    decisions,
    steps,
    invariants: [...BUILT_IN, CAN_END, ...invariants.map(({ name }) => name)],
    breaches: breaches.map(breach => reportBreach(breach, explorer)),
    tools: agent.tools.map(({ calls, outputs: _, ...tool }) => ({ ...tool, inputs: calls.length })),
    notes: [...agent.notes, ...unfinished],
  };
}
