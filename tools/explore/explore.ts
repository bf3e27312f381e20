import { type AgentMachine, agentMachine } from '../../machines/agent.ts';
import { chartIdentity } from '../../machines/snapshot.ts';
import { listEdges } from '../../machines/step.ts';
import { EngineError } from '../../protocol/error.ts';
import { JOURNAL_FORMAT, type RunStarted } from '../../protocol/event.ts';
import { userMessage } from '../../protocol/message.ts';
import type { Tool } from '../../protocol/tool.ts';
import { type Agent, isAgent } from '../agent/agent.ts';
import { describeAgent, type ExploredAgent, type ToolSamples } from './describe-agent.ts';
import { Drive } from './environment/drive.ts';
import type { Environment } from './environment/environment.ts';
import { listKinds, makeEnvironment } from './environment/environments.ts';
import { START } from './events/make-events.ts';
import { type Breach, BUILT_IN, Explorer, type Walk } from './explorer.ts';
import { findStuckPlaces } from './find-stuck-places.ts';
import { type Invariants, type NamedInvariant, nameInvariants } from './invariants/invariant.ts';
import { nameEdge } from './name-edge.ts';
import { type ExplorationReport, tellBreach } from './report.ts';

export type ExploreOptions = {
  /** The chart with other actions or guards: `agentMachine.provide({ actions, guards })`. */
  machine?: AgentMachine;
  /** What must hold at every step, besides what holds of every agent. */
  invariants?: Invariants;
  /** Where to stop. Default 12 000. */
  maxStates?: number;
  /** The tools of the agent's sources, connected by the caller: exploring connects to nothing. */
  tools?: readonly Tool[];
  /** What tools are called with and what they give, by name; without, what their schema allows, and `'done'`. */
  samples?: Readonly<Record<string, ToolSamples>>;
  /** Told now and then how many states there are so far. */
  onProgress?(states: number): void;
};

export const ENDLESS = 'every run can come to an end without being cancelled';

const DEFAULT_MOST_STATES = 12_000;

/**
 * Walks every path of the chart with this agent's tools, approvals and limits, and checks every step.
 * Executes nothing: no model, tool, approval function or tool server. A breach is told with the shortest
 * path that leads to it, of those walked. Throws `input-invalid` for options it cannot use.
 */
export function explore(agent: Agent, options: ExploreOptions = {}): ExplorationReport {
  const { machine = agentMachine, maxStates = DEFAULT_MOST_STATES, onProgress } = options;
  if (!isAgent(agent)) throw new EngineError('input-invalid', 'Expected an agent, as createAgent makes it.');
  if (!Number.isInteger(maxStates) || maxStates < 1)
    throw new EngineError(
      'input-invalid',
      `Expected maxStates to be a whole number above 0, got ${maxStates}.`,
    );
  if (typeof machine?.transition !== 'function')
    throw new EngineError(
      'input-invalid',
      'Expected machine to be agentMachine.provide({ actions, guards }).',
    );
  const invariants = nameInvariants(options.invariants ?? {});
  const taken = invariants.find(({ name }) => BUILT_IN.includes(name) || name === ENDLESS);
  if (taken !== undefined)
    throw new EngineError(
      'input-invalid',
      `Expected another name for the invariant "${taken.name}": it is one of every agent.`,
    );
  const { tools, samples } = options;
  const explored = describeAgent(agent, {
    ...(tools === undefined ? {} : { connected: tools }),
    ...(samples === undefined ? {} : { samples }),
  });
  const explorer = new Explorer(machine, makeStarted(explored), invariants, {
    onPlace: states => {
      if (states % PROGRESS_STEP === 0) onProgress?.(states);
    },
  });
  const unfinished = walkOver(explorer, explored, invariants.length > 0, maxStates);
  if (machine !== agentMachine) unfinished.push(...walkChanged(explorer, explored, maxStates));
  return makeReport(explorer, explored, unfinished, { machine, invariants });
}

const PROGRESS_STEP = 250;

/** How much of the states each walk may use, in the order they are made; what one leaves the next may use. */
const SHARES = { limits: 0.4, edits: 0.2, rounds: 0.4, histories: 0.5, all: 1 };

/**
 * Thin ways to every limit and past it; all choices right before the limits; edits; all that tools and
 * approvals can do; for predicates that look back, all ways to have come somewhere; and all choices from
 * the start. Gives back what stopped early.
 */
function walkOver(
  explorer: Explorer,
  agent: ExploredAgent,
  hasPredicates: boolean,
  maxStates: number,
): string[] {
  const environment = makeEnvironment(agent, hasPredicates);
  const detail = hasPredicates ? 'calls' : 'chart';
  const unfinished: string[] = [];
  const run = (name: string, share: number, walk: (mostPlaces: number) => Walk): void => {
    const left = maxStates - explorer.coverage.states;
    const walked = walk(Math.max(1, Math.floor(left * share)));
    if (!walked.isComplete) unfinished.push(name);
    else noteStuck(explorer, walked);
  };

  const drive = new Drive(explorer, agent, environment);
  drive.goDeep();
  drive.tryProbes();
  const near = drive.listPlacesNearLimits();
  const simple = listKinds(agent).map(call => [call]);
  const pair = listKinds(agent).flatMap((call, index) => (index === 0 || call.gate ? [[call, call]] : []));
  const narrow: Environment = {
    ...environment,
    firstRounds: [...simple, ...pair],
    rounds: [...simple, ...pair],
    unfit: false,
    sticky: false,
    mostUnread: 2,
  };
  run('the ways past the limits', SHARES.limits, mostPlaces =>
    explorer.walk(near, { environment: narrow, detail: 'chart', mostPlaces }),
  );
  for (const spendthrift of listSpendthrifts(agent, narrow)) {
    run('the ways past the limits', SHARES.limits, mostPlaces =>
      explorer.walk([explorer.start], { environment: spendthrift, detail: 'chart', mostPlaces }),
    );
  }
  run('edits of the transcript', SHARES.edits, mostPlaces =>
    explorer.walk([explorer.start], {
      environment: { ...narrow, firstRounds: simple, rounds: simple, edits: true },
      detail: 'chart',
      mostPlaces,
    }),
  );
  run('all that tools and approvals can do', SHARES.rounds, mostPlaces =>
    explorer.walk([explorer.start], { environment: { ...environment, people: false }, detail, mostPlaces }),
  );
  if (hasPredicates) {
    // Whether any predicate looks back is known once it was asked: the ways so far have asked.
    if (explorer.readsHistory) {
      run('the ways that differ by what was done before', SHARES.histories, mostPlaces =>
        explorer.walk([explorer.start], {
          environment: { ...environment, people: false, unfit: false, sticky: false },
          detail: 'history',
          mostPlaces,
        }),
      );
    }
  }
  run('all choices from the start', SHARES.all, mostPlaces =>
    explorer.walk([explorer.start], { environment, detail, mostPlaces }),
  );
  return [...new Set(unfinished)];
}

/** Of the most states, for each of the two walks that a chart with other actions or guards gets besides. */
const CHANGED_SHARE = 0.3;

/**
 * What leads to one place in the chart as it is can be two in a changed one: these walks keep apart what such
 * a chart could look at. They are seldom complete.
 */
function walkChanged(explorer: Explorer, agent: ExploredAgent, maxStates: number): string[] {
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
  const wide: Environment = { ...environment, firstRounds: rounds, rounds, unfit: false, mostUnread: 2 };
  const deep: Environment = { ...wide, people: false, sticky: false, endings: ['stop'], cutOff: [] };
  const walks = [deep, wide].map(one =>
    explorer.walk([explorer.start], {
      environment: one,
      detail: 'changed',
      mostPlaces: Math.max(1, Math.floor(maxStates * CHANGED_SHARE)),
    }),
  );
  return walks.every(({ isComplete }) => isComplete)
    ? []
    : ['the ways that only a changed chart could tell apart'];
}

/** Worlds in which one turn uses up a limit that is no count of turns or calls. */
function listSpendthrifts({ config }: ExploredAgent, environment: Environment): Environment[] {
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

function noteStuck(explorer: Explorer, walk: Walk): void {
  if (explorer.breaches.size > 0) return;
  const [stuck] = findStuckPlaces(walk).sort((one, other) => one.depth - other.depth);
  if (stuck === undefined) return;
  const { from, depth } = stuck;
  const breach: Breach = {
    invariant: ENDLESS,
    message: 'from here on nothing but cancelling ends it',
    before: from?.place ?? stuck,
    event: from?.event ?? null,
    depth,
  };
  explorer.breaches.set(ENDLESS, breach);
}

function makeStarted({ name, version, config }: ExploredAgent): RunStarted {
  return {
    type: 'run.started',
    at: START,
    runId: 'run_explored',
    format: JOURNAL_FORMAT,
    chart: chartIdentity(),
    agent: { name, ...(version === undefined ? {} : { version }) },
    config,
    input: [userMessage('begin')],
    stream: true,
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
    invariants: [...BUILT_IN, ENDLESS, ...invariants.map(({ name }) => name)],
    breaches: breaches.map(breach => tellBreach(breach, explorer)),
    tools: agent.tools.map(({ calls, outputs: _, ...tool }) => ({ ...tool, inputs: calls.length })),
    notes: [
      ...agent.notes,
      ...unfinished.map(what => `Stopped at the most states it may have: ${what} were not all walked.`),
    ],
  };
}
