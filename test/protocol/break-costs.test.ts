import { expect, test } from 'vitest';
import { BreakCosts } from '../../protocol/listing/cost.ts';
import type { Usage } from '../../protocol/turn.ts';
import { describeBreak, describeUsage } from '../../visualizer/describe-event.ts';

const HEAD = { instructions: '', tools: '', names: [] };
const PRICES = { m: { input: 3, output: 15, cachedInput: 0.3, cacheWrite: 3.75 } };

const used = (inputTokens: number, cached: number | null, written: number | null = null): Usage => ({
  inputTokens,
  outputTokens: 400,
  cachedInputTokens: cached,
  cacheWriteTokens: written,
  reasoningTokens: null,
});

function turn(usage: Usage | null, isBroken = false) {
  return {
    type: 'turn.completed' as const,
    ...{
      provider: 'p',
      model: 'm-2026-11-01',
      finishReason: 'stop' as const,
      text: '',
      items: [],
      calls: [],
    },
    ...{ requestId: 'r', generation: 1, at: 1, startedAt: 0, usage },
    sent: { items: 1, setup: { provider: 'p', model: 'm', first: HEAD } },
    ...(isBroken && { broken: { by: 'trim' as const, lost: ['a', 'b'] } }),
  };
}

function costAfter(before: Usage | null, usage: Usage | null, prices: typeof PRICES | undefined = PRICES) {
  const costs = new BreakCosts();
  costs.take(turn(before), prices);
  return costs.take(turn(usage, true), prices);
}

test('a break costs the tokens of the turn before that are in the request and came from no cache', () => {
  expect(costAfter(used(12_000, 11_000), used(20_000, 0))?.readAgain).toBe(12_400);
  expect(costAfter(used(12_000, 11_000), used(20_000, 2_400))?.readAgain).toBe(10_000);
  expect(costAfter(used(12_000, 11_000), used(5_000, 0))?.readAgain).toBe(5_000);
  expect(costAfter(used(12_000, 11_000), used(20_000, 13_000))?.readAgain).toBe(0);
});

test('its money is the price above that of cached tokens, by the model that was asked for', () => {
  expect(costAfter(used(10_000 - 400, 0), used(12_000, 0))?.cost).toBeCloseTo((10_000 * 2.7) / 1e6, 10);
  const written = costAfter(used(10_000 - 400, 0), used(12_000, 0, 11_500));
  expect(written?.cost).toBeCloseTo((10_000 * 3.45) / 1e6, 10);
});

test('it is unknown what a break cost if a turn reports no cached tokens, or there is no turn before', () => {
  const unknown = { readAgain: null, cost: null };
  expect(costAfter(used(12_000, 0), used(20_000, null))).toEqual(unknown);
  expect(costAfter(null, used(20_000, 0))).toEqual(unknown);
  expect(costAfter(used(12_000, 0), null)).toEqual(unknown);
  expect(new BreakCosts().take(turn(used(9, 0), true), PRICES)).toEqual(unknown);
});

test('without a price for cached tokens only the tokens are known', () => {
  const { m } = PRICES;
  const prices = { m: { input: m.input, output: m.output } };
  const costs = new BreakCosts();
  expect(costs.take(turn(used(100, 0)), prices)).toBeUndefined();
  expect(costs.take(turn(used(900, 0), true), prices)).toEqual({ readAgain: 500, cost: null });
});

test('a break says in one line what it lost', () => {
  const broken = { by: 'trim' as const, lost: ['a', 'b'] };
  expect(describeBreak(broken, { readAgain: 12_400, cost: 0.0335 })).toBe(
    'broken by trim: 2 thoughts lost, 12,400 tokens read again ($0.0335)',
  );
  expect(describeBreak({ by: 'tools', lost: ['a'] }, { readAgain: null, cost: null })).toBe(
    'broken by tools: 1 thought lost, an unknown number of tokens read again',
  );
  expect(describeBreak({ by: 'schema', lost: [] })).toBe('broken by schema');
});

test('usage names what the provider reports of its cache, also that nothing came from it', () => {
  expect(describeUsage(used(1_200, 1_000, 150))).toBe('1,200 tokens in (1,000 cached, 150 written), 400 out');
  expect(describeUsage(used(1_200, 0, 0))).toBe('1,200 tokens in (0 cached), 400 out');
  expect(describeUsage(used(1_200, null))).toBe('1,200 tokens in, 400 out');
});
