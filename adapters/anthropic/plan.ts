import type { JsonObject } from '../../protocol/json.ts';
import type { ModelRequest } from '../../protocol/turn.ts';
import { integerIn, objectOf } from '../turn/json-access.ts';
import { mergeOptions } from '../turn/merge-options.ts';
import { type ModelRules, modelRules } from './models.ts';
import { nativeSchema } from './native-schema.ts';
import { thinkingInput, thinksIn } from './thinking.ts';

type PlanOptions = {
  model: string;
  /** Whether the model can enforce an output schema. Default: judged by its name. */
  nativeOutput: boolean | undefined;
  /** The adapter's options; the request's options take precedence. */
  providerOptions: JsonObject | undefined;
};

/**
 * How the output schema is enforced:
 * - `free`: not at all, because there is none or another call is forced;
 * - `native`: with `output_config.format`;
 * - `tool`: with an additional tool called `name`, whose input is the answer;
 * - `words`: with instructions, when tools are turned off and a call cannot be forced.
 */
type OutputPlan =
  | { type: 'free' }
  | { type: 'native'; schema: JsonObject }
  | { type: 'tool'; name: string }
  | { type: 'words' };

/** Decisions that the request and the reading of the response share. Derived from the request alone. */
export type Plan = {
  rules: ModelRules;
  providerOptions: JsonObject;
  maxTokens: number;
  /** Body members `thinking` and `output_config.effort` for the reasoning effort. */
  thinking: JsonObject;
  /** Whether the model thinks in this request. */
  thinks: boolean;
  /** Whether `tool_choice` may force a call. */
  mayForce: boolean;
  output: OutputPlan;
};

/** Returns the plan for a request. */
export function planOf(request: ModelRequest, options: PlanOptions): Plan {
  const rules = modelRules(options.model);
  const providerOptions = mergeOptions(options.providerOptions ?? {}, request.providerOptions);
  const maxTokens = request.settings.maxOutputTokens ?? defaultMaxTokens(rules, providerOptions);
  const thinking = thinkingInput(
    request.settings.reasoningEffort,
    rules,
    integerIn(providerOptions.max_tokens) ?? maxTokens,
  );
  const thinks = thinksIn(mergeOptions(thinking, providerOptions), rules);
  const mayForce = rules.forcedChoice && !thinks;
  const native = options.nativeOutput ?? rules.nativeOutput;
  const output = outputPlan(request, { native, mayForce });
  return { rules, providerOptions, maxTokens, thinking, thinks, mayForce, output };
}

/** A large thinking budget is added to the default, because it must be below `max_tokens`. */
function defaultMaxTokens({ maxOutputTokens }: ModelRules, providerOptions: JsonObject): number {
  const budget = integerIn(objectOf(providerOptions.thinking).budget_tokens) ?? 0;
  return budget < maxOutputTokens ? maxOutputTokens : maxOutputTokens + budget;
}

function outputPlan(
  { output, tools, toolChoice }: ModelRequest,
  { native, mayForce }: { native: boolean; mayForce: boolean },
): OutputPlan {
  if (!output) return { type: 'free' };
  const schema = native ? nativeSchema(output.schema) : undefined;
  if (schema) return { type: 'native', schema };
  if (tools.length > 0) {
    const callIsForced = toolChoice !== 'auto' && toolChoice !== 'none';
    if (callIsForced && mayForce) return { type: 'free' };
    if (toolChoice === 'none' && !mayForce) return { type: 'words' };
  }
  let name = 'structured_output';
  while (tools.some(tool => tool.name === name)) name = `${name}_`;
  return { type: 'tool', name };
}
