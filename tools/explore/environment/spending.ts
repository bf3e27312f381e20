import type { Limits } from '../../../protocol/config.ts';
import type { Spent } from '../../../protocol/event.ts';

/** What a run has spent, counted from its events. */
export type Spending = {
  turns: number;
  /** Of these, the turns of sub-agents. */
  fromElsewhere: number;
  toolCalls: number;
  /** Calls that were refused because `toolCalls` was used up. */
  denied: number;
  tokens: number;
  cost: number;
  activeMs: number;
  /** Up to when the running batch's time is counted. */
  activeSince: number | null;
  /** Failures in a row, by digest. */
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

export function countOutcome(spending: Spending, digest: string, failed: boolean): Spending {
  const { [digest]: before = 0, ...others } = spending.failures;
  return { ...spending, failures: failed ? { ...others, [digest]: before + 1 } : others };
}

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

/** Says which limit is used up, or `null`. `toolCalls` is once a call was refused for it. */
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
  return reached === undefined ? null : `${reached[0]} were ${reached[1]} of ${reached[2]}`;
}

export function mostFailures({ failures }: Spending): number {
  return Object.values(failures).reduce((most, count) => Math.max(most, count), 0);
}
