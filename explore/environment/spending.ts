import type { Limits } from '../../protocol/config.ts';
import type { Spent } from '../../protocol/event.ts';

/** What a run has spent, computed from its events. */
export type Spending = {
  turns: number;
  /** The turns of sub-agents, included in `turns`. */
  fromElsewhere: number;
  toolCalls: number;
  /** The calls that were refused because the limit `toolCalls` was reached. */
  denied: number;
  tokens: number;
  cost: number;
  activeMs: number;
  /** Until when the time of the running batch has been counted. */
  activeSince: number | null;
  /** Consecutive failures, by call digest. */
  failures: Readonly<Record<string, number>>;
};

export const NOTHING_SPENT: Spending = {
  turns: 0,
  fromElsewhere: 0,
  toolCalls: 0,
  denied: 0,
  tokens: 0,
  cost: 0,
  activeMs: 0,
  activeSince: null,
  failures: {},
};

/** Counts the outcome of a call; a success resets the failures of its digest. */
export function countOutcome(spending: Spending, digest: string, failed: boolean): Spending {
  const { [digest]: before = 0, ...others } = spending.failures;
  return { ...spending, failures: failed ? { ...others, [digest]: before + 1 } : others };
}

/** Adds what a sub-agent's run spent. */
export function addSpent(spending: Spending, spent: Spent): Spending {
  const { usage } = spent;
  return {
    ...spending,
    turns: spending.turns + spent.turns,
    fromElsewhere: spending.fromElsewhere + spent.turns,
    toolCalls: spending.toolCalls + spent.toolCalls,
    tokens: spending.tokens + (usage === null ? 0 : usage.inputTokens + usage.outputTokens),
    cost: spending.cost + spent.cost,
    activeMs: spending.activeMs + spent.activeMs,
  };
}

/** Describes the limit that is reached, or returns `null`. `toolCalls` is reached once a call was refused for it. */
export function findSpentLimit(spending: Spending, limits: Limits): string | null {
  const counts: [string, number, number | undefined][] = [
    ['turns', spending.turns, limits.turns],
    [
      'toolCalls',
      spending.denied === 0 ? 0 : spending.toolCalls,
      spending.denied === 0 ? 1 : limits.toolCalls,
    ],
    ['tokens', spending.tokens, limits.tokens],
    ['cost', spending.cost, limits.cost],
    ['activeMs', spending.activeMs, limits.activeMs],
    ['repeatedFailures', mostFailures(spending), limits.repeatedFailures],
  ];
  const reached = counts.find(([, used, limit]) => limit !== undefined && used >= limit);
  return reached === undefined
    ? null
    : `the limit ${reached[0]} was reached (${reached[1]} of ${reached[2]})`;
}

/** Returns the highest number of consecutive failures of one call. */
export function mostFailures({ failures }: Spending): number {
  return Object.values(failures).reduce((most, count) => Math.max(most, count), 0);
}
