import type { Limits, RunConfig } from '../protocol/config.ts';
import type { Spent } from '../protocol/event.ts';
import type { Usage } from '../protocol/turn.ts';
import type { Context } from './context.ts';

type ReachedLimit = { limit: string; why: string };

/** The limit that the run has reached; that of `toolCalls` only once a call was refused because of it. */
export function findReachedLimit(context: Context): ReachedLimit | null {
  const { turns, toolCalls, tokens, cost, activeMs, repeatedFailures } = limitsOf(context);
  return (
    reached('turns', context.turns, turns) ??
    (context.deniedCalls === 0 ? null : reached('toolCalls', context.toolCalls, toolCalls)) ??
    reached('tokens', countTokens(context.usage), tokens) ??
    reached('cost', context.cost, cost) ??
    reached('activeMs', context.activeMs, activeMs) ??
    reached('repeatedFailures', mostFailures(context), repeatedFailures)
  );
}

/** The limit that leaves nothing until the background work has ended, which may spend what is left. */
export function findHeldLimit(context: Context): string | undefined {
  if (context.background.length === 0) return undefined;
  const limits = limitsOf(context);
  const used = usedOf(context);
  const held = heldOf(context);
  return (['turns', 'tokens', 'cost', 'activeMs'] as const).find(limit => {
    const allowed = limits[limit];
    return allowed !== undefined && held[limit] > 0 && used[limit] + held[limit] >= allowed;
  });
}

const SHARED = ['turns', 'toolCalls', 'tokens', 'cost', 'activeMs'] as const;
type Amounts = Record<(typeof SHARED)[number], number>;

/** What the background work may spend together. */
export function heldOf({ background }: Pick<Context, 'background'>): Amounts {
  const total: Amounts = { turns: 0, toolCalls: 0, tokens: 0, cost: 0, activeMs: 0 };
  for (const { held } of background) for (const limit of SHARED) total[limit] += held[limit] ?? 0;
  return total;
}

export function usedOf({ turns, toolCalls, usage, cost, activeMs }: Context): Amounts {
  return { turns, toolCalls, tokens: countTokens(usage), cost, activeMs };
}

function reached(limit: keyof Limits, used: number, allowed: number | undefined): ReachedLimit | null {
  if (allowed === undefined || used < allowed) return null;
  return { limit, why: `limit ${limit}: ${used} of ${allowed}` };
}

export function limitsOf({ config, params }: Context): Limits {
  return params.limits === undefined ? config.limits : { ...config.limits, ...params.limits };
}

function mostFailures(context: Context): number {
  let most = 0;
  for (const digest in context.failures) most = Math.max(most, context.failures[digest] ?? 0);
  return most;
}

function countTokens(usage: Usage | null): number {
  return usage === null ? 0 : usage.inputTokens + usage.outputTokens;
}

export function addSpent(context: Context, spent: Spent | undefined): Context {
  if (spent === undefined) return context;
  return {
    ...context,
    turns: context.turns + spent.turns,
    toolCalls: context.toolCalls + spent.toolCalls,
    usage: addUsage(context.usage, spent.usage),
    usageUnknown: context.usageUnknown || spent.usageUnknown === true,
    cost: context.cost + spent.cost,
    activeMs: context.activeMs + spent.activeMs,
  };
}

/** Whether a limit on tokens or cost cannot be checked, because a turn reported no usage. */
export function hasUncheckedLimit(context: Context): boolean {
  return context.usageUnknown && limitsUsage(limitsOf(context));
}

export function limitsUsage({ tokens, cost }: Limits): boolean {
  return tokens !== undefined || cost !== undefined;
}

/** Adds two usages; a missing count is ignored. */
export function addUsage(total: Usage | null, more: Usage | null): Usage | null {
  if (total === null || more === null) return total ?? more;
  return {
    inputTokens: total.inputTokens + more.inputTokens,
    outputTokens: total.outputTokens + more.outputTokens,
    cachedInputTokens: addCounts(total.cachedInputTokens, more.cachedInputTokens),
    cacheWriteTokens: addCounts(total.cacheWriteTokens, more.cacheWriteTokens),
    reasoningTokens: addCounts(total.reasoningTokens, more.reasoningTokens),
    ...(total.estimated === true || more.estimated === true ? { estimated: true } : {}),
  };
}

function addCounts(total: number | null, more: number | null): number | null {
  return total === null || more === null ? (total ?? more) : total + more;
}

export function modelOf(context: Context): RunConfig['models'][number] {
  const model = context.config.models[context.turn.model];
  if (model === undefined) throw new Error(`The run's model list has no entry ${context.turn.model}.`);
  return model;
}
