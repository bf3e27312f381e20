import type { Agent } from '../agent/agent.ts';
import { isOfChart } from '../machines/fold.ts';
import { limitsOf } from '../machines/limits.ts';
import { type ChartState, type Step, statePath } from '../machines/step.ts';
import type { Limits, Prices } from '../protocol/config.ts';
import { invalidInput } from '../protocol/error.ts';
import type { ChartEvent, JournalEntry, RunStarted } from '../protocol/event.ts';
import type { JsonValue } from '../protocol/json.ts';
import type { SideEffect } from '../protocol/tool.ts';
import type { ExploredTool } from './describe-agent.ts';
import { type Environment, listCalls, makeEnvironment } from './environment.ts';
import {
  beginExploration,
  type Exploration,
  type ExploreOptions,
  finishExploration,
  refuseUnknownExploreOptions,
} from './explore.ts';
import { type PathEntry, type Steps, takeSteps, type Walk, type WalkPlace } from './explorer.ts';
import { type ExplorationReport, reportPath } from './report.ts';
import { type NamedWalk, shareOf } from './walks.ts';

/** What may still happen to a run. The paths of breaches begin after the entry `at`. */
export type ForwardReport = ExplorationReport & {
  runId: string;
  /** The entry that the exploration starts after. */
  at: number;
  /** The state at that entry. */
  state: string;
  /** The states that can come, the nearest first, each with the events after `at` that lead to it. */
  ahead: { state: string; path: PathEntry[] }[];
  /** What the agent's tools may still do, and whether a person has to approve it. */
  starts: ToolAhead[];
  /** The open calls that wait for an approval at `at`. */
  approvals: { callId: string; name: string }[];
  /** What the run may still spend, by limit. */
  left: Left;
};

const SUB_AGENTS = 'What the runs of sub-agents may spend is not included: they have limits of their own.';

/** The share of the states and of the time for the two walks without messages, pauses and edits. */
const PLAIN_SHARE = 0.2;

/**
 * Explores what may still happen to a run after the last of `entries`, its journal so far: the states that can come, the
 * approvals that stand before its tools, what it may still spend, and breaches of invariants. Executes nothing, like
 * `explore`. The limits, the models and the run context are the run's; the tools are the agent's. Throws like `explore`,
 * and `journal-damaged` for a journal that does not fit.
 */
export function exploreFrom(
  agent: Agent,
  entries: readonly JournalEntry[],
  options: ExploreOptions = {},
): ForwardReport {
  refuseUnknownExploreOptions('exploreFrom', options);
  const { started, past } = readPast(entries);
  const ahead = new Ahead();
  const exploration = beginExploration(agent, options, {
    started,
    past,
    onTaken: (before, event, step) => ahead.take(before, event, step),
  });
  const { explorer } = exploration;
  const { state } = explorer.start;
  const stopped = state.status === 'active' ? walkPlainly(exploration, ahead) : [];
  const report = finishExploration(exploration, stopped);
  const paths = [...ahead.states].map(([path, { before, event }]) => ({
    state: path,
    path: reportPath(before, event, explorer).slice(1),
  }));
  const hasSubAgents = exploration.agent.tools.some(({ isSubAgent }) => isSubAgent);
  const breaches = report.breaches.map(breach => ({ ...breach, path: breach.path.slice(1) }));
  return {
    ...report,
    breaches,
    rules: report.rules.map(({ path, ...rule }) => (path ? { ...rule, path: path.slice(1) } : rule)),
    notes: [...report.notes, ...(hasSubAgents ? [SUB_AGENTS] : [])],
    runId: started.runId,
    at: entries.at(-1)?.seq ?? 1,
    state: statePath(state),
    ahead: paths.toSorted((one, other) => one.path.length - other.path.length),
    starts: ahead.listTools(exploration.agent.tools),
    approvals: listGated(state),
    left: spendingLeft(state, limitsOf(state.context), ahead),
  };
}

/** Returns the start and the events of a journal that the chart takes. Throws `input-invalid` without the start. */
export function readPast(entries: readonly JournalEntry[]): { started: RunStarted; past: ChartEvent[] } {
  const [first, ...rest] = entries;
  if (first?.event.type !== 'run.started')
    throw invalidInput('Expected the entries of a run from its start.');
  return { started: first.event, past: rest.map(({ event }) => event).filter(isOfChart) };
}

/** Walks what models, tools and decisions can do, without any approval first, with the calls of different tools apart. */
function walkPlainly({ agent, explorer, budget }: Exploration, ahead: Ahead): NamedWalk[] {
  const singles = listCalls(agent).map(call => [call]);
  const plain: Environment = {
    ...makeEnvironment(agent),
    firstRounds: singles,
    rounds: singles,
    sticky: false,
    clientEvents: false,
    invalidEvents: false,
  };
  const mostPlaces = Math.max(1, Math.floor(budget.maxStates * PLAIN_SHARE));
  const walk = (name: string, people: People, environment: Environment): NamedWalk[] => {
    const isOver = shareOf(budget, PLAIN_SHARE);
    const steps = explorer.walkInSteps([explorer.start], {
      environment,
      mostPlaces,
      detail: 'calls',
      isOver,
    });
    const walked = takeSteps(ahead.watch(people, steps));
    return walked.isComplete ? [] : [{ name, walk: walked, isPartial: true }];
  };
  return [
    ...walk('what can start without an approval', 'refuse', { ...plain, approvals: false }),
    ...walk('what can start after an approval', 'decide', plain),
  ];
}

function listGated({ context, status }: ChartState): ForwardReport['approvals'] {
  if (status !== 'active') return [];
  return context.calls.flatMap(call =>
    call.status === 'gated' ? [{ callId: call.callId, name: call.name }] : [],
  );
}

/** A tool, and what has to come before its calls. Without both members, no call of it can start. */
type ToolAhead = {
  tool: string;
  sideEffect: SideEffect;
  /** An input with which a call can start without any further approval. */
  freely?: JsonValue;
  /** An input with which a call can start only after a person approved it. */
  approved?: JsonValue;
};

type LastStep = { before: WalkPlace; event: ChartEvent; people: People };

/** What people do in a walk: they approve nothing, decide, or do everything they can. */
type People = 'refuse' | 'decide' | 'act';

class Ahead {
  #people: People = 'act';
  /** Whether a model call can complete. */
  takesTurns = false;
  /** The states that can come, if possible without messages, pauses and edits. */
  readonly states = new Map<string, LastStep>();
  readonly #free = new Set<string>();
  readonly #starts = { freely: new Map<string, JsonValue>(), approved: new Map<string, JsonValue>() };

  /** A walk, and its continuation, in which people do this. */
  *watch(people: People, steps: Steps<Walk>): Steps<Walk> {
    this.#people = people;
    const walk = yield* steps;
    this.#people = 'act';
    return walk.isComplete ? walk : { ...walk, goOn: bounds => this.watch(people, walk.goOn(bounds)) };
  }

  take(before: WalkPlace, event: ChartEvent, { state }: Step): void {
    const path = statePath(state);
    const known = this.states.get(path);
    const people = this.#people;
    const isBetter = people !== 'act' || known?.people === 'act';
    if (known === undefined || (isBetter && before.depth < known.before.depth))
      this.states.set(path, { before, event, people });
    if (event.type === 'turn.completed') this.takesTurns = true;
    this.#findStarts(before, event, state);
  }

  get startsTools(): boolean {
    return this.#starts.freely.size + this.#starts.approved.size > 0;
  }

  listTools(tools: readonly ExploredTool[]): ToolAhead[] {
    const { freely, approved } = this.#starts;
    return tools.map(({ name, sideEffect }) => ({
      tool: name,
      sideEffect,
      ...(freely.has(name) && { freely: freely.get(name) ?? null }),
      ...(approved.has(name) && { approved: approved.get(name) ?? null }),
    }));
  }

  /** A call starts when the engine starts it, or when a client gets it. */
  #findStarts({ state: before }: WalkPlace, event: ChartEvent, { context }: Step['state']): void {
    if (event.type !== 'tool.started' && event.type !== 'turn.completed' && event.type !== 'approval.decided')
      return;
    for (const { callId, name, input, status, gate } of context.calls) {
      const isStarted = event.type === 'tool.started' ? event.callId === callId : status === 'waiting';
      if (!isStarted || before.context.calls.find(call => call.callId === callId)?.status === status)
        continue;
      if (this.#people === 'refuse') {
        this.#free.add(`${callId} ${gate}`);
        keep(this.#starts.freely, name, input);
      } else if (gate && !this.#free.has(`${callId} ${gate}`)) keep(this.#starts.approved, name, input);
    }
  }
}

function keep(inputs: Map<string, JsonValue>, tool: string, input: JsonValue): void {
  if (!inputs.has(tool)) inputs.set(tool, input);
}

/** What was spent of a limit, and the most that can still be; `null` if nothing limits it. */
type SpendingLeft = { spent: number; most: number | null };

/** By limit. The turn that reaches a limit of `tokens`, `cost` or `activeMs` may exceed it. */
type Left = Record<'turns' | 'toolCalls' | 'tokens' | 'cost' | 'activeMs', SpendingLeft>;

function spendingLeft({ context }: ChartState, limits: Limits, { takesTurns, startsTools }: Ahead): Left {
  const { turns, toolCalls, usage, cost, activeMs, closing, config } = context;
  const tokens = usage === null ? 0 : usage.inputTokens + usage.outputTokens;
  const left = (spent: number, limit = Number.POSITIVE_INFINITY): number => Math.max(0, limit - spent);
  const plain = takesTurns && closing === null ? left(turns, limits.turns) : 0;
  const final = takesTurns && (closing !== null || config.onLimit === 'answer') ? 1 : 0;
  const mostTokens = takesTurns ? left(tokens, limits.tokens) : 0;
  const mostCost = takesTurns ? Math.min(left(cost, limits.cost), mostTokens * dearest(config.prices)) : 0;
  return {
    turns: { spent: turns, most: plain + final },
    toolCalls: { spent: toolCalls, most: plain === 0 ? 0 : left(toolCalls, limits.toolCalls) },
    tokens: { spent: tokens, most: finite(mostTokens) },
    cost: { spent: cost, most: finite(mostCost) },
    activeMs: {
      spent: activeMs,
      most: takesTurns || startsTools ? finite(left(activeMs, limits.activeMs)) : 0,
    },
  };
}

const finite = (most: number): number | null => (Number.isFinite(most) ? most : null);

/** The highest price of one token; infinite if no price is known. */
function dearest(prices: Prices = {}): number {
  const all = Object.values(prices).flatMap(({ input, output, cacheWrite = 0 }) => [
    input,
    output,
    cacheWrite,
  ]);
  return all.length === 0 ? Number.POSITIVE_INFINITY : Math.max(...all) / 1_000_000;
}
