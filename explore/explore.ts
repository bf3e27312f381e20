/*
 * `explore()`: a model checker for an agent. `explorer.ts` walks the chart breadth first and checks every step, and
 * `walks.ts` says which walks prove what. `environment.ts` says what the model, the tools and people may do;
 * `generate-events.ts` lists the events to offer in a state, valid and invalid; `reference-model.ts` computes from the
 * events alone what the run should be; `built-in-invariants.ts` compares the two.
 */

import { type Agent, isAgent } from '../agent/agent.ts';
import { type AgentMachine, agentMachine } from '../machines/agent.ts';
import { chartIdentity } from '../machines/snapshot.ts';
import { listEdges } from '../machines/step.ts';
import { invalidInput } from '../protocol/error.ts';
import { type ChartEvent, JOURNAL_FORMAT, type RunStarted } from '../protocol/event.ts';
import { omitUndefined } from '../protocol/json.ts';
import { userMessage } from '../protocol/message.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { Tool } from '../protocol/tool.ts';
import type { Rule } from '../rules/rule.ts';
import { BUILT_IN } from './built-in-invariants.ts';
import {
  askedBy,
  asksForPeople,
  describeAgent,
  type ExploredAgent,
  type ToolSamples,
} from './describe-agent.ts';
import { RuleEnforcer } from './enforce-rules.ts';
import { listCalls } from './environment.ts';
import { Explorer, nameEdge, type WalkPlace, type WalkWatcher } from './explorer.ts';
import { type Invariants, type NamedInvariant, nameInvariants } from './invariant.ts';
import { unknownIn } from './known-tools.ts';
import { START, STARTER } from './make-events.ts';
import { Monitor, type MonitoredRule } from './monitor.ts';
import { readNever } from './never.ts';
import {
  type ExplorationReport,
  type RuleReport,
  reportBreach,
  reportPath,
  type UnfinishedWalks,
} from './report.ts';
import { type Budget, CAN_END, type NamedWalk, walkAll, walkChangedChart } from './walks.ts';

export type ExploreOptions = {
  /** The chart with changed actions or guards: `agentMachine.provide({ actions, guards })`. */
  machine?: AgentMachine;
  /** Your invariants, checked at every step in addition to the built-in ones. */
  invariants?: Invariants;
  /** The maximum of states to visit. Default 40,000. Given without `maxMs`, it is the only bound. */
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
  /**
   * What may never start, each as a rule of the report: `'TOOL|#TAG [after TOOL|#TAG] [unless approved [by GROUP]]'`,
   * such as `'refund unless approved by manager'`.
   */
  never?: string | readonly string[];
  /** Called every 250 states with the number of states so far. */
  onProgress?(states: number): void;
};

const NAMES = optionNames<ExploreOptions>()(
  'machine invariants tools samples runContext never maxStates maxMs now onProgress',
);
const SAMPLE_NAMES = optionNames<ToolSamples>()('calls outputs');

/** Throws `input-invalid` for an unknown option of `explore`, `exploreFrom` or `checkPath`. */
export function refuseUnknownExploreOptions(
  of: string,
  options: { samples?: ExploreOptions['samples'] | undefined },
  known: Readonly<Record<string, true>> = NAMES,
): void {
  refuseUnknownOptions(of, options, known, 'input-invalid');
  for (const [tool, samples] of Object.entries(options.samples ?? {}))
    refuseUnknownOptions(`samples["${tool}"] of ${of}`, samples, SAMPLE_NAMES, 'input-invalid');
}

const DEFAULT_MAX_STATES = 40_000;
const DEFAULT_MAX_MS = 3_000;

/**
 * Walks the paths of the chart with this agent's tools, approvals and limits, and checks every step. Executes
 * nothing: no model, tool or tool server, and only approval functions marked `pure`. Each breach is reported with the shortest path
 * found to it. Without breaches, all invariants hold only if the report is `complete`. Throws an `EngineError` `input-invalid` for invalid options.
 *
 * @example
 * const { breaches, complete } = explore(agent, {
 *   invariants: {
 *     'at most 12 turns': ({ context }) => context.turns <= 12,
 *   },
 * });
 * expect({ breaches, complete }).toEqual({ breaches: [], complete: true });
 */
export function explore(agent: Agent, options: ExploreOptions = {}): ExplorationReport {
  refuseUnknownExploreOptions('explore', options);
  return finishExploration(beginExploration(agent, options));
}

const PROGRESS_STEP = 250;

export type Exploration = {
  agent: ExploredAgent;
  explorer: Explorer;
  machine: AgentMachine;
  invariants: readonly NamedInvariant[];
  budget: Budget;
};

export type ExploredRun = {
  started: RunStarted;
  past: readonly ChartEvent[];
  onTaken?: WalkWatcher['onTaken'];
};

/** Prepares an exploration from the start, or from where a run stands. Throws like `explore`, and `journal-damaged`. */
export function beginExploration(agent: Agent, options: ExploreOptions, run?: ExploredRun): Exploration {
  const { machine = agentMachine, maxStates = DEFAULT_MAX_STATES, onProgress } = options;
  const { maxMs = options.maxStates === undefined ? DEFAULT_MAX_MS : Number.POSITIVE_INFINITY } = options;
  const { now = () => performance.now() } = options;
  const budget: Budget = { maxStates, maxMs, now, until: now() + maxMs };
  if (!isAgent(agent)) throw invalidInput('Expected an agent created by createAgent.');
  if (!Number.isInteger(maxStates) || maxStates < 1)
    throw invalidInput(`Expected maxStates to be a positive integer, got ${maxStates}.`);
  if (typeof maxMs !== 'number' || !(maxMs > 0))
    throw invalidInput(`Expected maxMs to be a number of ms above 0, got ${maxMs}.`);
  if (typeof machine?.transition !== 'function')
    throw invalidInput('Expected machine to be agentMachine.provide({ actions, guards }).');
  const invariants = nameInvariants(options.invariants ?? {});
  const taken = invariants.find(({ name }) => BUILT_IN.includes(name) || name === CAN_END)?.name;
  if (taken !== undefined)
    throw invalidInput(
      `Expected another name for the invariant "${taken}": a built-in invariant has this name.`,
    );
  const { tools, samples, runContext } = options;
  const given = omitUndefined({ connected: tools, samples, runContext, stored: run?.started });
  const described = describeAgent(agent, given);
  const watcher: WalkWatcher = {
    ...omitUndefined({ onTaken: run?.onTaken }),
    onPlace(states) {
      if (states % PROGRESS_STEP === 0) onProgress?.(states);
    },
  };
  const started = run?.started ?? makeStarted(described);
  const monitor = makeMonitor(described, options);
  const enforcer = new RuleEnforcer(described.rules, described.tools);
  const how = { ...omitUndefined({ monitor }), enforcer };
  const explorer = new Explorer(machine, started, invariants, watcher, run?.past, how);
  const { config } = explorer.start.reference;
  if (monitor !== undefined) beginMonitor(monitor, explorer.start, described);
  const explored = { ...described, config, ...omitUndefined({ monitor }) };
  return { agent: explored, explorer, machine, invariants, budget };
}

function makeMonitor(agent: ExploredAgent, { never = [] }: ExploreOptions): Monitor | undefined {
  const asked = typeof never === 'string' ? [never] : never;
  const own = agent.rules.flatMap(followedRule);
  const rules = [...own, ...asked.map(text => readNever(text, agent))];
  const twice = rules.find(({ name }, index) => rules.findIndex(one => one.name === name) !== index);
  if (twice !== undefined) throw invalidInput(`Expected each rule once, got "${twice.name}" twice.`);
  return rules.length === 0 ? undefined : new Monitor(rules, agent.tools);
}

/** A rule of the agent lets a call begin for which it asked, with that approval; one that is a function is not followed. */
function followedRule({ name, when, then }: Rule): MonitoredRule[] {
  if (typeof when === 'function') return [];
  const isAsk = typeof then === 'object' || then === 'ask';
  return [{ name, condition: when, ...(isAsk && { unless: typeof then === 'object' ? askedBy(then) : {} }) }];
}

/** The most calls of one turn that the walks make. */
const MOST_IN_ROUND = 3;

function beginMonitor(monitor: Monitor, { reference, followed }: WalkPlace, agent: ExploredAgent): void {
  const { config, spending, calls } = reference;
  const { turns, toolCalls } = config.limits;
  const hasClients = agent.tools.some(({ executedBy }) => executedBy === 'client');
  const clients = hasClients ? (turns - spending.turns + 1) * MOST_IN_ROUND : 0;
  const most = toolCalls - spending.toolCalls + calls.length + clients;
  const open = calls.map(({ call: { name }, input }) => ({ name, input }));
  monitor.beginAt(followed ?? monitor.start, [...listCalls(agent), ...open], most);
}

/** Walks, and reports. `earlier`: walks of this exploration that stopped before their end. */
export function finishExploration(
  exploration: Exploration,
  earlier: readonly NamedWalk[] = [],
): ExplorationReport {
  const { agent, explorer, machine, invariants, budget } = exploration;
  const unfinished = walkAll(explorer, agent, { ...budget, hasInvariants: invariants.length > 0 }, earlier);
  if (machine !== agentMachine) unfinished.push(...walkChangedChart(explorer, agent, budget));
  return reportExploration(exploration, unfinished);
}

/** What the walks so far have found. `unfinished`: those that stopped before their end. */
export function reportExploration(
  { agent, explorer, machine, invariants }: Exploration,
  unfinished: UnfinishedWalks[],
): ExplorationReport {
  const { edges, ...counts } = explorer.coverage;
  const all = [...new Set(listEdges(machine).map(nameEdge))];
  const missing = all.filter(edge => !edges.has(edge));
  const breaches = [...explorer.breaches.values()].sort((one, other) => one.depth - other.depth);
  return {
    agent: agent.name,
    complete: unfinished.length === 0,
    unfinished,
    ...counts,
    edges: { taken: all.length - missing.length, total: all.length, missing },
    invariants: [...BUILT_IN, CAN_END, ...invariants.map(({ name }) => name)],
    breaches: breaches.map(breach => reportBreach(breach, explorer)),
    rules: [
      ...(agent.monitor?.rules ?? []).map(({ name, condition }) => {
        const unknown = unknownIn(condition, agent);
        return {
          ...reportRule(name, explorer, unfinished.length === 0),
          ...(agent.rules.some(one => one.name === name && one.isShadow) && { only: 'shadow' as const }),
          ...(unknown.length > 0 && { unknown }),
        };
      }),
      ...agent.rules.flatMap(({ name, when }) =>
        typeof when === 'function' ? [unproved(name, explorer)] : [],
      ),
    ],
    tools: agent.tools.map(({ calls, outputs: _, ...tool }) => ({ ...tool, inputs: calls.length })),
    notes: agent.notes,
  };
}

function reportRule(name: string, explorer: Explorer, isComplete: boolean): RuleReport {
  const { states } = explorer.coverage;
  const broken = explorer.broken.get(name);
  if (broken !== undefined) {
    const { message, before, event } = broken;
    return { name, verdict: 'broken', states, message, path: reportPath(before, event, explorer) };
  }
  return isComplete
    ? { name, verdict: 'proved', states }
    : { name, verdict: 'not-proved', states, message: 'the walks stopped before their end' };
}

function unproved(name: string, { coverage: { states } }: Explorer): RuleReport {
  const message = 'it is a function, which is enforced, and not called here';
  return { name, verdict: 'not-proved', states, message, only: 'function' };
}

function makeStarted(agent: ExploredAgent): RunStarted {
  const { name, version, config, runContext } = agent;
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
    ...omitUndefined({ runContext, by: asksForPeople(agent) ? STARTER : undefined }),
  };
}
