import type { JsonObject } from '../../protocol/json.ts';
import type { ModelRequest } from '../../protocol/turn.ts';
import { integerIn, objectOf } from '../turn/json-access.ts';
import { mergeOptions } from '../turn/merge-options.ts';
import { type ModelRules, modelRules } from './models.ts';
import { nativeSchema } from './native-schema.ts';
import { thinkingInput, thinksIn } from './thinking.ts';

export type PlanOptions = {
  model: string;
  /** Whether the model can be held to a schema. Default: by its name. */
  nativeOutput: boolean | undefined;
  /** The adapter's own; the request's go over them. */
  providerOptions: JsonObject | undefined;
};

/**
 * How the model is held to the schema of the answer: not at all, by its own format, by a tool made for
 * it that is called `name`, or by words, where tools are off and none can be forced.
 */
export type OutputPlan =
  | { type: 'free' }
  | { type: 'native'; schema: JsonObject }
  | { type: 'tool'; name: string }
  | { type: 'words' };

/** What request and response have to agree on. It follows from the request alone. */
export type Plan = {
  rules: ModelRules;
  providerOptions: JsonObject;
  maxTokens: number;
  /** `thinking` and `output_config.effort`, as the settings ask for them. */
  thinking: JsonObject;
  thinks: boolean;
  /** Whether `tool_choice` may force a call. */
  mayForce: boolean;
  output: OutputPlan;
};

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
  const output = outputPlan(request, native, mayForce);
  return { rules, providerOptions, maxTokens, thinking, thinks, mayForce, output };
}

/** A budget to think with comes on top: it has to be below `max_tokens`. */
function defaultMaxTokens({ maxOutputTokens }: ModelRules, providerOptions: JsonObject): number {
  const budget = integerIn(objectOf(providerOptions.thinking).budget_tokens) ?? 0;
  return budget < maxOutputTokens ? maxOutputTokens : maxOutputTokens + budget;
}

function outputPlan(
  { output, tools, toolChoice }: ModelRequest,
  native: boolean,
  mayForce: boolean,
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
