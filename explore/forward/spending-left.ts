import type { ChartState } from '../../machines/step.ts';
import type { Limits, Prices } from '../../protocol/config.ts';
import type { Ahead } from './ahead.ts';

/** What was spent of a limit, and the most that can still be; `null` if nothing limits it. */
type SpendingLeft = { spent: number; most: number | null };

/** By limit. The turn that reaches a limit of `tokens`, `cost` or `activeMs` may exceed it. */
export type Left = Record<'turns' | 'toolCalls' | 'tokens' | 'cost' | 'activeMs', SpendingLeft>;

/** Returns what a run may still spend within its limits: nothing, if no model call can come. */
export function spendingLeft(
  { context }: ChartState,
  limits: Limits,
  { takesTurns, startsTools }: Ahead,
): Left {
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
