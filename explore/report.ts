import { statePath } from '../machines/step.ts';
import type { ChartEvent } from '../protocol/event.ts';
import type { ExploredTool } from './describe-agent.ts';
import { type Breach, type Explorer, type PathEntry, pathTo, type WalkPlace } from './explorer.ts';

/** An invariant that does not hold, with the path that breaks it. */
export type BreachReport = {
  invariant: string;
  message: string;
  /** From the start of the run to the step that breaks the invariant. */
  path: PathEntry[];
};

/** What the walks say of a rule. */
export type RuleReport = {
  name: string;
  /**
   * `proved`: all walks came to their end, and no start of a call breaks it; `broken`: one does; `not-proved`: the walks
   * stopped before their end, or the rule is a function, which is not called.
   */
  verdict: 'proved' | 'broken' | 'not-proved';
  /** The number of distinct states that were walked. */
  states: number;
  /** It is only tried, so a path may well break it (`shadow`), or no walk can prove it (`function`). It is not counted. */
  only?: 'shadow' | 'function';
  /** What it names although no tool of the agent has this name or tag. */
  unknown?: string[];
  /** What breaks it, or why it is not proved. */
  message?: string;
  /** The shortest path that breaks it, found from the start of the run. */
  path?: PathEntry[];
};

/** Walks that stopped before their end. What was not walked may break any invariant. */
export type UnfinishedWalks = {
  /** What they walk. */
  paths: string;
  /** The option of `explore` that stopped them. */
  stoppedBy: 'maxStates' | 'maxMs';
  /** The number of states that they reached. */
  states: number;
  /** The number of these states of which not all that follows was walked. */
  open: number;
  /** What would complete them. */
  advice: string;
};

export type ExplorationReport = {
  agent: string;
  /**
   * Whether every walk came to its end. If not, `breaches: []` proves nothing about the paths in `unfinished`, and that
   * every run can end was not checked there.
   */
  complete: boolean;
  /** What was not walked to its end; empty if `complete`. */
  unfinished: UnfinishedWalks[];
  /** The number of distinct states, counted once per walk. */
  states: number;
  /** Edges of the chart, by name. Some are unreachable for an agent without checks of the answer or approvals. */
  edges: { taken: number; total: number; missing: string[] };
  /** The number of states at which the run was restored from its JSON, as after a crash. */
  crashPoints: number;
  /** The number of accepted decisions and client results. */
  decisions: number;
  /** The number of offered events, accepted or not. */
  steps: number;
  /** The names of all invariants, checked at every step. */
  invariants: string[];
  /** The broken invariants, each with the shortest path found; the shortest path first. */
  breaches: BreachReport[];
  /** The rules that were followed. */
  rules: RuleReport[];
  tools: (Omit<ExploredTool, 'calls' | 'outputs'> & { inputs: number })[];
  /** What every exploration of this agent leaves out or assumes, and why. */
  notes: string[];
};

export function reportBreach(
  { invariant, message, before, event }: Breach,
  explorer: Explorer,
): BreachReport {
  return { invariant, message, path: reportPath(before, event, explorer) };
}

export function reportPath(before: WalkPlace, event: ChartEvent | null, explorer: Explorer): PathEntry[] {
  const path = pathTo(before).map(({ state, from }): PathEntry => {
    if (from !== null) return explorer.describeStep(from.place, from.event);
    return { event: explorer.started, state: statePath(state), why: state.context.next?.why ?? null };
  });
  return event === null ? path : [...path, explorer.describeStep(before, event)];
}
