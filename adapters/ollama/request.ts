import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import type { ModelRequest, Settings, ToolDefinition } from '../../protocol/turn.ts';
import { objectOf } from '../turn/json-access.ts';
import { mergeOptions } from '../turn/merge-options.ts';
import { withOutputSchema } from '../turn/strict-schema.ts';

export type BodyOptions = {
  model: string;
  /** Instructions and transcript as messages. */
  messagesOf(request: Pick<ModelRequest, 'instructions' | 'transcript'>): JsonObject[];
  /** Always said: a body that does not say is answered by a stream. */
  stream: boolean;
  /** The adapter's own; the request's go over them. */
  providerOptions: JsonObject | undefined;
};

/**
 * The body of one call. A `format` binds every word, so beside tools, which it would keep from being
 * called, the schema is in the instructions. Throws a `ProviderError` for content that Ollama has no form of.
 */
export function bodyOf(request: ModelRequest, options: BodyOptions): JsonObject {
  const tools = offeredTools(request);
  const { output } = request;
  const told = output && tools.length > 0 ? withOutputSchema(request.instructions, output) : undefined;
  const settings = settingsInput(request.settings);
  return mergeOptions(
    {
      model: options.model,
      messages: options.messagesOf(told === undefined ? request : { ...request, instructions: told }),
      stream: options.stream,
      ...(tools.length > 0 ? { tools: tools.map(toolInput) } : {}),
      ...(output && told === undefined ? { format: output.schema } : {}),
      ...(Object.keys(settings).length > 0 ? { options: settings } : {}),
      ...thinkInput(request.settings.reasoningEffort, options.model),
    },
    mergeOptions(options.providerOptions ?? {}, request.providerOptions),
  );
}

/** There is no tool choice: what the model must not call is not offered. */
function offeredTools({ tools, toolChoice }: ModelRequest): readonly ToolDefinition[] {
  if (toolChoice === 'none') return [];
  return typeof toolChoice === 'string' ? tools : tools.filter(tool => tool.name === toolChoice.name);
}

function toolInput({ name, description, inputSchema }: ToolDefinition): JsonObject {
  const parameters: JsonObject = { ...inputSchema, properties: objectOf(inputSchema.properties) };
  return { type: 'function', function: { name, description, parameters } };
}

function settingsInput({ temperature, topP, maxOutputTokens }: Settings): JsonObject {
  return {
    ...(maxOutputTokens === undefined ? {} : { num_predict: maxOutputTokens }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { top_p: topP }),
  };
}

/** Only gpt-oss takes levels, and it cannot be kept from thinking; all others take yes or no. */
function thinkInput(effort: string | undefined, model: string): JsonObject {
  if (effort === undefined) return {};
  const levels = /gpt-oss/.test(model);
  return { think: levels ? levelOf(effort) : effort !== 'none' };
}

function levelOf(effort: string): JsonValue {
  switch (effort) {
    case 'none':
    case 'minimal':
      return 'low';
    case 'xhigh':
    case 'max':
      return 'high';
    default:
      return effort;
  }
}
