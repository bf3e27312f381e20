import type { Prices } from '../config.ts';
import type { Usage } from '../turn.ts';

/** Returns the cost of a turn, in the unit of `prices`; 0 without a price for the model or without usage. */
export function costOf(usage: Usage | null, model: string, prices: Prices | undefined): number {
  if (usage === null || prices === undefined || !Object.hasOwn(prices, model)) return 0;
  const price = prices[model];
  if (price === undefined) return 0;
  const cached = Math.min(usage.cachedInputTokens ?? 0, usage.inputTokens);
  const written = Math.min(usage.cacheWriteTokens ?? 0, usage.inputTokens - cached);
  const plain = usage.inputTokens - cached - written;
  const total =
    plain * price.input +
    cached * (price.cachedInput ?? price.input) +
    written * (price.cacheWrite ?? price.input) +
    usage.outputTokens * price.output;
  return total / 1_000_000;
}
