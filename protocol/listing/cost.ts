import type { Prices } from '../config.ts';
import type { RunEvent } from '../event.ts';
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

/**
 * What a break cost. `readAgain`: the tokens of the request before it and of its reply that this request has too and that
 * came from no cache; `null` if one of the turns does not report it. `cost`: what they cost more than cached tokens, in
 * the unit of the prices; `null` without a price for cached tokens.
 */
export type BreakCost = { readAgain: number | null; cost: number | null };

type Turn = Extract<RunEvent, { type: 'turn.completed' }>;

/** Counts what the breaks of a run cost. Takes every completed turn and what was sent beside the turns, in order. */
export class BreakCosts {
  #before: Pick<Usage, 'inputTokens' | 'outputTokens'> | null = null;

  /** What a run inherits had been sent, and so is what a compaction asked the model to summarize. */
  follow(event: RunEvent): void {
    if (event.type === 'run.started' && event.inherits !== undefined)
      this.#before = { inputTokens: event.inherits.tokens, outputTokens: 0 };
    else if (event.type === 'transcript.compacted' && event.usage !== null) this.#before = event.usage;
  }

  /** `undefined` if the request of the turn began with the one before it. */
  take(turn: Turn, prices: Prices | undefined): BreakCost | undefined {
    const before = this.#before;
    this.#before = turn.usage;
    return turn.broken === undefined ? undefined : costOfBreak(before, turn, prices);
  }
}

function costOfBreak(
  before: Pick<Usage, 'inputTokens' | 'outputTokens'> | null,
  { usage, sent, model }: Turn,
  prices: Prices | undefined,
): BreakCost {
  const cached = usage?.cachedInputTokens ?? null;
  if (before === null || usage === null || cached === null) return { readAgain: null, cost: null };
  const shared = Math.min(before.inputTokens + before.outputTokens, usage.inputTokens);
  const readAgain = Math.max(0, shared - cached);
  const written = Math.max(0, (usage.cacheWriteTokens ?? 0) - readAgain);
  const unbroken = { ...usage, cachedInputTokens: cached + readAgain, cacheWriteTokens: written };
  // Prices are of the model that was asked for; the reply may name a version of it.
  const asked = sent?.setup?.model ?? model;
  if (prices?.[asked]?.cachedInput === undefined) return { readAgain, cost: null };
  return { readAgain, cost: costOf(usage, asked, prices) - costOf(unbroken, asked, prices) };
}

/** Dollars as prices of models need them: `$0`, `$0.0477`, `$12.30`. */
export function formatCost(dollars: number): string {
  if (dollars === 0) return '$0';
  if (dollars < 0.0001) return 'less than $0.0001';
  return `$${dollars.toFixed(dollars < 1 ? 4 : 2)}`;
}
