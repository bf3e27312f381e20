import type { JsonValue } from '../../protocol/json.ts';
import type { Usage } from '../../protocol/turn.ts';

type Count = JsonValue | undefined;
type UsageCounts = {
  input: Count;
  output: Count;
  cachedInput?: Count;
  cacheWrite?: Count;
  reasoning?: Count;
};

/** Counts as non-negative integers, else `null`; sub-counts are not capped: some exceed the input. */
export function normalizeUsage(counts: UsageCounts): Usage | null {
  const input = count(counts.input);
  const output = count(counts.output);
  if (input === null && output === null) return null;
  return {
    inputTokens: input ?? 0,
    outputTokens: output ?? 0,
    cachedInputTokens: count(counts.cachedInput),
    cacheWriteTokens: count(counts.cacheWrite),
    reasoningTokens: count(counts.reasoning),
  };
}

function count(value: JsonValue | undefined): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? Math.max(0, Math.round(value)) : null;
}
