// explore/forward: exploring from a moment of a real run.

import type { Agent } from '../../agent/agent.ts';
import { limitsOf } from '../../machines/limits.ts';
import { type ChartState, statePath } from '../../machines/step.ts';
import { EngineError } from '../../protocol/error.ts';
import type { ChartEvent, JournalEntry, RunStarted } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Environment } from '../environment/environment.ts';
import { listCalls, makeEnvironment } from '../environment/environments.ts';
import {
  beginExploration,
  type Exploration,
  type ExploreOptions,
  finishExploration,
  refuseUnknownExploreOptions,
} from '../explore.ts';
import type { PathEntry } from '../place.ts';
import { type ExplorationReport, reportPath, type UnfinishedWalks } from '../report.ts';
import { listUnfinished, shareOf } from '../walks.ts';
import { Ahead, type ToolAhead } from './ahead.ts';
import { type Left, spendingLeft } from './spending-left.ts';

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
  const { runContext = options.runContext } = started;
  const exploration = beginExploration(
    agent,
    { ...options, ...omitUndefined({ runContext }) },
    { started, past, onTaken: (before, event, step) => ahead.take(before, event, step) },
  );
  const { explorer } = exploration;
  const { state } = explorer.start;
  const unfinished = state.status === 'active' ? walkPlainly(exploration, ahead) : [];
  const report = finishExploration(exploration, unfinished);
  const paths = [...ahead.states].map(([path, { before, event }]) => ({
    state: path,
    path: reportPath(before, event, explorer).slice(1),
  }));
  const hasSubAgents = exploration.agent.tools.some(({ isSubAgent }) => isSubAgent);
  const breaches = report.breaches.map(breach => ({ ...breach, path: breach.path.slice(1) }));
  return {
    ...report,
    breaches,
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
    throw new EngineError('input-invalid', 'Expected the entries of a run from its start.');
  const past = rest.flatMap(({ event }): ChartEvent[] => {
    switch (event.type) {
      case 'run.started':
      case 'run.claimed':
      case 'run.noted':
      case 'run.redacted':
      case 'tool.late':
        return [];
      default:
        return [event];
    }
  });
  return { started: first.event, past };
}

/**
 * Walks what models, tools and decisions can do: first without any approval, to find the tools that need none. Calls
 * of different tools are kept apart, so that each tool gets its turn. Returns the walks that stopped before their end.
 */
function walkPlainly({ agent, explorer, budget }: Exploration, ahead: Ahead): UnfinishedWalks[] {
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
  const walk = (environment: Environment) =>
    explorer.walk([explorer.start], {
      environment,
      mostPlaces,
      detail: 'calls',
      isOver: shareOf(budget, PLAIN_SHARE),
    });
  ahead.people = 'refuse';
  const refused = walk({ ...plain, approvals: false });
  ahead.people = 'decide';
  const decided = walk(plain);
  ahead.people = 'act';
  return [
    ...listUnfinished('what can start without an approval', [refused], budget),
    ...listUnfinished('what can start after an approval', [decided], budget),
  ];
}

function listGated({ context, status }: ChartState): ForwardReport['approvals'] {
  if (status !== 'active') return [];
  return context.calls.flatMap(call =>
    call.status === 'gated' ? [{ callId: call.callId, name: call.name }] : [],
  );
}
