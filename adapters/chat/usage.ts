import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import type { Usage } from '../../protocol/turn.ts';
import { objectOf } from '../turn/json-access.ts';
import { normalizeUsage } from '../turn/usage.ts';

/** Reads the token counts of a `usage` object, including the members specific to DeepSeek and Moonshot. */
export function usageOf(value: JsonValue | undefined): Usage | null {
  const usage = objectOf(value);
  const input = objectOf(usage.prompt_tokens_details);
  const reasoning = objectOf(usage.completion_tokens_details).reasoning_tokens;
  return normalizeUsage({
    input: usage.prompt_tokens,
    output: outputTokens(usage, reasoning),
    cachedInput: input.cached_tokens ?? usage.prompt_cache_hit_tokens ?? usage.cached_tokens,
    cacheWrite: input.cache_write_tokens,
    reasoning,
  });
}

/** Grok does not include reasoning in the completion count: its total is then the sum of all three. */
function outputTokens(usage: JsonObject, reasoning: JsonValue | undefined): JsonValue | undefined {
  const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = usage;
  if (typeof completion !== 'number' || typeof reasoning !== 'number' || reasoning <= 0) return completion;
  const apart = typeof prompt === 'number' && total === prompt + completion + reasoning;
  return apart ? completion + reasoning : completion;
}
