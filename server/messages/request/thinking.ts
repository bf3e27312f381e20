import { type JsonObject, omitUndefined } from '../../../protocol/json.ts';
import type { CountBody } from './message-body.ts';

type Thinking = Pick<CountBody, 'thinking' | 'output_config'>;

/** The largest thinking budget, in tokens, of each effort; above the last it is `high`. */
const BUDGETS: readonly (readonly [effort: string, most: number])[] = [
  ['low', 4_096],
  ['medium', 16_384],
];

/** Providers whose adapters translate the effort `none` for every model. OpenAI's older models refuse it. */
const TAKE_NONE: readonly string[] = ['gemini', 'groq', 'mistral', 'deepseek', 'openrouter', 'ollama'];

/**
 * `reasoning` of the Responses API for providers other than Anthropic. `output_config.effort` counts first, with `high`
 * for the efforts above; then a thinking budget, by its size. `disabled` is the effort `none` where every model takes it. Adaptive thinking leaves
 * the effort to the model. Shown thinking asks for a summary.
 */
export function reasoningOf(
  { thinking, output_config: config }: Thinking,
  provider: string,
): JsonObject | undefined {
  const isOn = thinking?.type === 'enabled' || thinking?.type === 'adaptive';
  const effort = effortOf(config?.effort) ?? budgetEffort(thinking, provider);
  const summary = isOn && thinking.display !== 'omitted' ? 'auto' : undefined;
  const reasoning = omitUndefined({ effort, summary });
  return Object.keys(reasoning).length === 0 ? undefined : reasoning;
}

function effortOf(effort: string | null | undefined): string | undefined {
  return effort === 'xhigh' || effort === 'max' ? 'high' : (effort ?? undefined);
}

function budgetEffort(thinking: CountBody['thinking'], provider: string): string | undefined {
  if (thinking?.type === 'disabled') return TAKE_NONE.includes(provider) ? 'none' : undefined;
  if (thinking?.type !== 'enabled') return undefined;
  return BUDGETS.find(([, most]) => thinking.budget_tokens <= most)?.[0] ?? 'high';
}

/** `thinking` and `output_config.effort` for Anthropic's API, as the client sent them. */
export function thinkingOptions({ thinking, output_config: config }: Thinking): JsonObject {
  return omitUndefined({
    thinking: (thinking ?? undefined) as JsonObject | undefined,
    output_config: config?.effort == null ? undefined : { effort: config.effort },
  });
}
