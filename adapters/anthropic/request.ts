import type { Item } from '../../protocol/item.ts';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import type { ModelRequest, Settings, ToolDefinition } from '../../protocol/turn.ts';
import { convertOnce } from '../http/body-text.ts';
import type { Input } from '../turn/growing-input.ts';
import { objectsOf, textIn } from '../turn/json-access.ts';
import { mergeOptions } from '../turn/merge-options.ts';
import { withOutputSchema } from '../turn/strict-schema.ts';
import { nativeSchema } from './native-schema.ts';
import type { Plan } from './plan.ts';

/** Inputs of `bodyOf` besides the model request. */
export type BodyOptions = {
  model: string;
  stream: boolean;
  conversationOf(transcript: readonly Item[]): Input;
};

/** Builds the request body of one call. It always contains the full transcript. */
export function bodyOf(
  request: ModelRequest,
  plan: Plan,
  { model, stream, conversationOf }: BodyOptions,
): JsonObject {
  const { opening, input: messages } = conversationOf(request.transcript);
  const instructions = instructionsOf(request, plan, opening);
  const tools = toolsInput(request, plan);
  const body = mergeOptions(
    mergeOptions(
      {
        model,
        max_tokens: plan.maxTokens,
        ...omitUndefined({ system: instructions || undefined }),
        messages,
        ...(stream ? { stream: true } : {}),
        ...(tools.length > 0 ? { tools } : {}),
        ...samplingInput(request.settings, plan),
        ...(plan.output.type === 'native'
          ? { output_config: { format: { type: 'json_schema', schema: plan.output.schema } } }
          : {}),
      },
      plan.thinking,
    ),
    plan.providerOptions,
  );
  if (objectsOf(body.tools).length > 0) return { tool_choice: choiceInput(request, plan), ...body };
  const called = calledTools(messages);
  return called.length > 0 ? { tool_choice: { type: 'none' }, ...body, tools: called } : body;
}

function instructionsOf(request: ModelRequest, { output }: Plan, system: readonly string[]): string {
  const { instructions } = request;
  const own =
    output.type === 'words' && request.output ? withOutputSchema(instructions, request.output) : instructions;
  return [own ?? '', ...system].filter(text => text !== '').join('\n\n');
}

function toolsInput({ tools, output }: ModelRequest, plan: Plan): JsonObject[] {
  const inputs = plan.rules.nativeOutput ? nativeToolInputs(tools) : plainToolInputs(tools);
  if (plan.output.type !== 'tool' || !output) return inputs;
  const answer = {
    name: plan.output.name,
    description:
      'Gives the final answer. Call it once, when the answer is known, instead of writing the answer.',
    input_schema: objectSchema(output.schema),
  };
  return [...inputs, answer];
}

const nativeToolInputs = convertOnce<ToolDefinition>(tools =>
  tools.map(tool => toolInput(tool, tool.strict === true ? nativeSchema(tool.inputSchema) : undefined)),
);
const plainToolInputs = convertOnce<ToolDefinition>(tools => tools.map(tool => toolInput(tool)));

function toolInput({ name, description, inputSchema }: ToolDefinition, strictForm?: JsonObject): JsonObject {
  return {
    name,
    ...omitUndefined({ description: description || undefined }),
    input_schema: objectSchema(strictForm ?? inputSchema),
    ...(strictForm ? { strict: true } : {}),
  };
}

function objectSchema(schema: JsonObject): JsonObject {
  return { ...schema, type: 'object' };
}

/**
 * Returns declarations for the called tools: the API refuses calls in a transcript if no tool is declared.
 */
function calledTools(messages: readonly JsonObject[]): JsonObject[] {
  const names = new Set<string>();
  for (const { content } of messages) {
    for (const block of objectsOf(content)) if (block.type === 'tool_use') names.add(textIn(block.name));
  }
  return [...names].map(name => ({ name, input_schema: { type: 'object' } }));
}

function choiceInput({ tools, toolChoice, settings }: ModelRequest, { output, mayForce }: Plan): JsonObject {
  const single: JsonObject = settings.parallelToolCalls === false ? { disable_parallel_tool_use: true } : {};
  if (output.type === 'tool' && mayForce) {
    return tools.length > 0 && toolChoice === 'auto'
      ? { type: 'any', ...single }
      : { type: 'tool', name: output.name, disable_parallel_tool_use: true };
  }
  if (toolChoice === 'none' && output.type !== 'tool') return { type: 'none' };
  if (toolChoice === 'auto' || toolChoice === 'none' || !mayForce) return { type: 'auto', ...single };
  return toolChoice === 'required'
    ? { type: 'any', ...single }
    : { type: 'tool', name: toolChoice.name, ...single };
}

/**
 * With thinking, `temperature` is refused and `top_p` must be at least 0.95. Newer models accept one of the
 * two, or none.
 */
function samplingInput({ temperature, topP }: Settings, { rules, thinks }: Plan): JsonObject {
  if (rules.sampling === 'none') return {};
  const sampling: JsonObject =
    temperature === undefined || thinks ? {} : { temperature: Math.min(1, Math.max(0, temperature)) };
  const oneIsEnough = rules.sampling === 'one' && sampling.temperature !== undefined;
  if (topP === undefined || oneIsEnough || (thinks && topP < 0.95)) return sampling;
  return { ...sampling, top_p: topP };
}
