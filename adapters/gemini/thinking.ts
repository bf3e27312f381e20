import type { JsonObject } from '../../protocol/json.ts';
import { generationOf } from './generation.ts';

/**
 * Converts a reasoning effort: to a level for Gemini 3, to a token budget for earlier models. A numeric
 * effort is a budget in tokens. https://ai.google.dev/gemini-api/docs/openai#thinking
 */
export function thinkingConfig(effort: string, model: string): JsonObject {
  if (/^-?\d+$/.test(effort)) return { thinkingBudget: Number(effort) };
  return generationOf(model) >= 3
    ? { thinkingLevel: levelOf(effort, model) }
    : { thinkingBudget: BUDGETS.get(effort) ?? DYNAMIC };
}

/** Thinking cannot be turned off in Gemini 3; its Pro models have no `minimal` level. */
function levelOf(effort: string, model: string): string {
  if (effort === 'none' || effort === 'minimal') return /-pro\b/.test(model) ? 'low' : 'minimal';
  return effort === 'xhigh' || effort === 'max' ? 'high' : effort;
}

const BUDGETS: ReadonlyMap<string, number> = new Map([
  ['none', 0],
  ['minimal', 1_024],
  ['low', 1_024],
  ['medium', 8_192],
  ['high', 24_576],
  ['xhigh', 24_576],
  ['max', 24_576],
]);

const DYNAMIC = -1;
