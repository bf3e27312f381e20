import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import type {
  ModelRequest,
  OutputFormat,
  Settings,
  ToolChoice,
  ToolDefinition,
} from '../../protocol/turn.ts';
import { nonEmpty, objectOf } from '../json-access.ts';
import { mergeOptions } from '../merge-options.ts';
import type { ResponsesDialect } from './dialect.ts';
import { endOfLastTurn, inputOf } from './input.ts';

export type BodyOptions = {
  model: string;
  stream: boolean;
  /** Whether the provider is to keep the response; a `store` in the provider options goes before it. */
  store: boolean;
  /** Whether to ask for encrypted reasoning, without which no later turn can be replayed in full. */
  encryptedReasoning: boolean;
  /** The adapter's own; the request's go over them. */
  providerOptions: JsonObject | undefined;
};

/**
 * The body of one call. It continues from `request.continuation` if the provider keeps responses, and
 * then has only the input behind the last turn; everything else is sent as if it were the first turn.
 */
export function bodyOf(request: ModelRequest, dialect: ResponsesDialect, options: BodyOptions): JsonObject {
  const providerOptions = mergeOptions(options.providerOptions ?? {}, request.providerOptions);
  const stored = dialect.remembers && (providerOptions.store ?? options.store) !== false;
  const previous = stored ? nonEmpty(request.continuation) : undefined;
  const from = previous === undefined ? undefined : endOfLastTurn(request.transcript);
  const body = mergeOptions(
    {
      model: options.model,
      ...(request.instructions === undefined ? {} : { instructions: request.instructions }),
      ...(previous === undefined || from === undefined ? {} : { previous_response_id: previous }),
      input: inputOf(request.transcript, { provider: dialect.provider, stored, from: from ?? 0 }),
      ...(options.stream ? { stream: true } : {}),
      ...(stored ? {} : { store: false }),
      ...(options.encryptedReasoning ? { include: ['reasoning.encrypted_content'] } : {}),
      ...(request.tools.length > 0 ? { tools: request.tools.map(toolInput) } : {}),
      ...(request.output ? { text: { format: formatInput(request.output) } } : {}),
      ...settingsInput(request.settings),
    },
    providerOptions,
  );
  const hasTools = Array.isArray(body.tools) && body.tools.length > 0;
  return hasTools ? { ...toolSettings(request), ...body } : body;
}

/** Both are refused where there are no tools. */
function toolSettings({ toolChoice, settings }: ModelRequest): JsonObject {
  return {
    tool_choice: choiceInput(toolChoice),
    ...(settings.parallelToolCalls === undefined ? {} : { parallel_tool_calls: settings.parallelToolCalls }),
  };
}

function choiceInput(choice: ToolChoice): JsonValue {
  return typeof choice === 'string' ? choice : { type: 'function', name: choice.name };
}

/** An absent `strict` would mean true, which most schemas do not fit; an object schema must have `properties`. */
function toolInput({ name, description, inputSchema, strict }: ToolDefinition): JsonObject {
  const parameters: JsonObject = { ...inputSchema, properties: objectOf(inputSchema.properties) };
  return { type: 'function', name, description, parameters, strict: strict === true };
}

function formatInput({ name, schema, strict }: OutputFormat): JsonObject {
  return {
    type: 'json_schema',
    name: name.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 64),
    schema,
    ...(strict === undefined ? {} : { strict }),
  };
}

function settingsInput(settings: Settings): JsonObject {
  return {
    ...(settings.temperature === undefined ? {} : { temperature: settings.temperature }),
    ...(settings.topP === undefined ? {} : { top_p: settings.topP }),
    ...(settings.maxOutputTokens === undefined ? {} : { max_output_tokens: settings.maxOutputTokens }),
    ...(settings.reasoningEffort === undefined ? {} : { reasoning: { effort: settings.reasoningEffort } }),
  };
}
