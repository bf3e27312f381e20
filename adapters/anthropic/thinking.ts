import type { JsonObject } from '../../protocol/json.ts';
import { objectOf } from '../turn/json-access.ts';
import type { ModelRules } from './models.ts';

/** Thinking budgets in tokens by effort. The API requires at least `LEAST_BUDGET`. */
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
 * Converts `reasoningEffort` to the form that the model takes: nothing, a budget that leaves room for the
 * answer within `maxTokens`, or adaptive thinking with an effort. An unknown effort means the `medium`
 * budget, or is sent unchanged.
 *
 * A model that always thinks writes its text between calls as thinking, which it leaves empty unless the request asks
 * for it. Source: https://platform.claude.com/docs/en/build-with-claude/thinking#controlling-thinking-display
 */
export function thinkingInput(effort: string | undefined, rules: ModelRules, maxTokens: number): JsonObject {
  const input = inputFor(effort, rules, maxTokens);
  if (rules.thinkingOff !== 'impossible') return input;
  return { ...input, thinking: { type: 'adaptive', display: 'summarized' } };
}

function inputFor(effort: string | undefined, rules: ModelRules, maxTokens: number): JsonObject {
  if (effort === undefined || rules.thinking === 'never') return {};
  if (effort === 'none') return thinkingOffInput(rules);
  if (rules.thinking === 'adaptive') {
    return { thinking: { type: 'adaptive' }, output_config: { effort: effortOf(effort, rules) } };
  }
  const largest = Math.max(LEAST_BUDGET, Math.floor(maxTokens * 0.75));
  const budget = Math.min(BUDGETS[effort] ?? 10_000, largest);
  return budget < maxTokens ? { thinking: { type: 'enabled', budget_tokens: budget } } : {};
}

/**
 * Whether the model thinks in this request. If so, it refuses a forced tool choice and most sampling
 * settings.
 */
export function thinksIn(body: JsonObject, rules: ModelRules): boolean {
  const { type } = objectOf(body.thinking);
  return type === undefined ? rules.thinksByDefault : type === 'enabled' || type === 'adaptive';
}

function thinkingOffInput({ thinkingOff }: ModelRules): JsonObject {
  if (thinkingOff === 'default') return {};
  return thinkingOff === 'impossible'
    ? { output_config: { effort: 'low' } }
    : { thinking: { type: thinkingOff } };
}

function effortOf(effort: string, { extraHighEffort }: ModelRules): string {
  if (effort === 'minimal') return 'low';
  return effort === 'xhigh' && !extraHighEffort ? 'high' : effort;
}
