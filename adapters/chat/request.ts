import type { Item } from '../../protocol/item.ts';
import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import type { ModelRequest, OutputFormat, ToolChoice, ToolDefinition } from '../../protocol/turn.ts';
import { objectOf } from '../turn/json-access.ts';
import { mergeOptions } from '../turn/merge-options.ts';
import { strictSchema, withOutputSchema } from '../turn/strict-schema.ts';
import type { ChatDialect, OutputForm } from './dialect.ts';
import { roleFor } from './messages.ts';

export type BodyOptions = {
  model: string;
  /** The transcript as messages, behind those of `head`. */
  messagesOf: (transcript: readonly Item[], head: readonly JsonObject[]) => JsonObject[];
  stream: boolean;
  /** The adapter's own; the request's go over them. */
  providerOptions: JsonObject | undefined;
};

/** The body of one call. */
export function bodyOf(request: ModelRequest, dialect: ChatDialect, options: BodyOptions): JsonObject {
  const { model } = options;
  const providerOptions = mergeOptions(options.providerOptions ?? {}, request.providerOptions);
  const form = outputFormFor(request, dialect);
  const body = mergeOptions(
    {
      model,
      messages: options.messagesOf(request.transcript, instructionsInput(request, form, dialect, model)),
      ...(options.stream ? streamInput(dialect) : {}),
      ...(request.tools.length > 0 ? { tools: request.tools.map(toolInput) } : {}),
      ...(request.output ? formatInput(request.output, form) : {}),
      ...settingsInput(request, dialect, model),
    },
    providerOptions,
  );
  const hasTools = Array.isArray(body.tools) && body.tools.length > 0;
  return hasTools ? { ...toolSettings(request, dialect), ...body } : body;
}

function outputFormFor({ tools }: ModelRequest, dialect: ChatDialect): OutputForm {
  const form = dialect.output ?? 'json_schema';
  return tools.length > 0 ? (dialect.outputWithTools ?? form) : form;
}

function instructionsInput(
  { instructions, output }: ModelRequest,
  form: OutputForm,
  dialect: ChatDialect,
  model: string,
): JsonObject[] {
  const told = output !== undefined && form !== 'json_schema';
  const content = told ? withOutputSchema(instructions, output) : instructions;
  return content === undefined ? [] : [{ role: roleFor('system', dialect, model), content }];
}

function streamInput(dialect: ChatDialect): JsonObject {
  return { stream: true, ...(dialect.streamMembers ?? { stream_options: { include_usage: true } }) };
}

/** Both are refused where there are no tools. */
function toolSettings({ toolChoice, settings }: ModelRequest, dialect: ChatDialect): JsonObject {
  return {
    tool_choice: choiceInput(toolChoice, dialect),
    ...(settings.parallelToolCalls === undefined ? {} : { parallel_tool_calls: settings.parallelToolCalls }),
  };
}

function choiceInput(choice: ToolChoice, { requiredChoice }: ChatDialect): JsonValue {
  if (typeof choice !== 'string') return { type: 'function', function: { name: choice.name } };
  return choice === 'required' ? (requiredChoice ?? 'required') : choice;
}

/** A schema that cannot be strict is sent as it is. An object schema must have `properties`. */
function toolInput({ name, description, inputSchema, strict }: ToolDefinition): JsonObject {
  const parameters: JsonObject = { ...inputSchema, properties: objectOf(inputSchema.properties) };
  const strictly = strict === true ? strictSchema(parameters) : undefined;
  const input = { name, description, parameters: strictly ?? parameters };
  return { type: 'function', function: strictly ? { ...input, strict: true } : input };
}

function formatInput({ name, schema, strict }: OutputFormat, form: OutputForm): JsonObject {
  if (form === 'instructions') return {};
  if (form === 'json_object') return { response_format: { type: 'json_object' } };
  const strictly = strict === true ? strictSchema(schema) : undefined;
  const format: JsonObject = {
    name: name.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 64),
    schema: strictly ?? schema,
    ...(strict === undefined ? {} : { strict: strictly !== undefined }),
  };
  return { response_format: { type: 'json_schema', json_schema: format } };
}

function settingsInput({ settings }: ModelRequest, dialect: ChatDialect, model: string): JsonObject {
  const { temperature, topP, maxOutputTokens, reasoningEffort } = settings;
  const effort = dialect.effort ?? (value => ({ reasoning_effort: value }));
  return {
    ...(temperature === undefined ? {} : { temperature }),
    ...(topP === undefined ? {} : { top_p: topP }),
    ...(maxOutputTokens === undefined
      ? {}
      : { [dialect.maxTokensMember?.(model) ?? 'max_tokens']: maxOutputTokens }),
    ...(reasoningEffort === undefined ? {} : effort(reasoningEffort, model)),
  };
}
