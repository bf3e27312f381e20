import type { JsonObject } from '../../protocol/json.ts';
import { objectOf } from '../turn/json-access.ts';
import type { ModelRules } from './models.ts';

/** Tokens to think with, for models that take a budget. The API takes no fewer than `LEAST_BUDGET`. */
const BUDGETS: Readonly<Record<string, number>> = {
  minimal: 1_024,
  low: 4_096,
  medium: 10_000,
  high: 20_000,
  xhigh: 28_000,
  max: 28_000,
};
const LEAST_BUDGET = 1_024;

/**
 * `reasoningEffort` in the form the model takes: nothing, a budget that leaves room for the answer
 * below `maxTokens`, or adaptive thinking with an effort. Unknown efforts count as `medium` or go as they are.
 */
export function thinkingInput(effort: string | undefined, rules: ModelRules, maxTokens: number): JsonObject {
  if (effort === undefined || rules.thinking === 'never') return {};
  if (effort === 'none') return notThinking(rules);
  if (rules.thinking === 'adaptive') {
    return { thinking: { type: 'adaptive' }, output_config: { effort: effortOf(effort, rules) } };
  }
  const most = Math.max(LEAST_BUDGET, Math.floor(maxTokens * 0.75));
  const budget = Math.min(BUDGETS[effort] ?? 10_000, most);
  return budget < maxTokens ? { thinking: { type: 'enabled', budget_tokens: budget } } : {};
}

/** Whether the model thinks in this request; then it refuses a forced choice of tools and most sampling. */
export function thinksIn(body: JsonObject, rules: ModelRules): boolean {
  const { type } = objectOf(body.thinking);
  return type === undefined ? rules.thinksUnasked : type === 'enabled' || type === 'adaptive';
}

function notThinking({ thinkingOff }: ModelRules): JsonObject {
  if (thinkingOff === 'unasked') return {};
  return thinkingOff === 'impossible'
    ? { output_config: { effort: 'low' } }
    : { thinking: { type: thinkingOff } };
}

function effortOf(effort: string, { extraHighEffort }: ModelRules): string {
  if (effort === 'minimal') return 'low';
  return effort === 'xhigh' && !extraHighEffort ? 'high' : effort;
}
