import { type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { ModelRequest, Settings, ToolDefinition } from '../../protocol/turn.ts';
import { convertOnce } from '../http/body-text.ts';
import { objectOf } from '../turn/json-access.ts';
import { mergeOptions } from '../turn/merge-options.ts';
import { withOutputSchema } from '../turn/strict-schema.ts';

/** Inputs of `bodyOf` besides the model request. */
export type BodyOptions = {
  model: string;
  /** Converts instructions and transcript to messages. */
  messagesOf(request: Pick<ModelRequest, 'instructions' | 'transcript'>): JsonObject[];
  /** Always sent, because Ollama's default is to stream. */
  stream: boolean;
  /** The adapter's options; the request's options take precedence. */
  providerOptions: JsonObject | undefined;
};

/**
 * Builds the request body of one call. A `format` constrains the full output and would prevent tool calls, so
 * in requests with tools the schema is added to the instructions. Throws a `ProviderError` for content that
 * Ollama does not accept.
 */
export function bodyOf(request: ModelRequest, options: BodyOptions): JsonObject {
  const tools = offeredTools(request);
  const { output } = request;
  const instructions =
    output && tools.length > 0 ? withOutputSchema(request.instructions, output) : request.instructions;
  const settings = settingsInput(request.settings);
  return mergeOptions(
    {
      model: options.model,
      messages: options.messagesOf({ transcript: request.transcript, ...omitUndefined({ instructions }) }),
      stream: options.stream,
      ...(tools.length > 0 ? { tools: toolInputs(tools) } : {}),
      ...omitUndefined({ format: tools.length > 0 ? undefined : output?.schema }),
      ...(Object.keys(settings).length > 0 ? { options: settings } : {}),
      ...thinkInput(request.settings.reasoningEffort, options.model),
    },
    mergeOptions(options.providerOptions ?? {}, request.providerOptions),
  );
}

/** The API has no tool choice, so tools that the model must not call are not sent. */
function offeredTools({ tools, toolChoice }: ModelRequest): readonly ToolDefinition[] {
  if (toolChoice === 'none') return [];
  return typeof toolChoice === 'string' ? tools : tools.filter(tool => tool.name === toolChoice.name);
}

const toolInputs = convertOnce<ToolDefinition>(tools => tools.map(toolInput));

function toolInput({ name, description, inputSchema }: ToolDefinition): JsonObject {
  const parameters: JsonObject = { ...inputSchema, properties: objectOf(inputSchema.properties) };
  return { type: 'function', function: { name, description, parameters } };
}

function settingsInput({ temperature, topP, maxOutputTokens }: Settings): JsonObject {
  return omitUndefined({ num_predict: maxOutputTokens, temperature, top_p: topP });
}

/**
 * Only gpt-oss takes levels, and its thinking cannot be turned off; all other models take `true` or `false`.
 */
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
