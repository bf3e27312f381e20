// The Chat Completions API, for every provider that implements it: requests, streams and turns. A `ChatDialect`
// describes how a provider deviates.

import type { ModelAdapter } from '../../protocol/adapter.ts';
import { ProviderError } from '../../protocol/error.ts';
import { type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { NamesOf } from '../../protocol/options/refuse-unknown.ts';
import type { ModelRequest, OutputFormat, ToolChoice, ToolDefinition } from '../../protocol/turn.ts';
import { convertOnce } from '../http/body-text.ts';
import { CONNECTION_NAMES, type ConnectionOptions, connector } from '../http/connection.ts';
import { readErrorBody } from '../http/provider-errors.ts';
import type { ClientOptions } from '../http/transport.ts';
import { mergeOptions, objectOf } from '../turn/json-access.ts';
import { singleTurnAdapter } from '../turn/single-turn.ts';
import { strictSchema, withOutputSchema } from '../turn/strict-schema.ts';
import type { ChatDialect, OutputForm } from './dialect.ts';
import { growingMessages, roleFor } from './messages.ts';
import { ChatReader } from './turn.ts';

export type ChatOptions = ConnectionOptions &
  ClientOptions & {
    /** Merged into the body of every request, before the request's own options. Objects are merged, `tools` appended. */
    providerOptions?: JsonObject;
  };

export const CHAT_NAMES: NamesOf<ChatOptions> = { ...CONNECTION_NAMES, client: true, providerOptions: true };

export function chatAdapter(dialect: ChatDialect, options: ChatOptions): ModelAdapter {
  const { model } = options;
  const messagesOf = growingMessages(dialect, model);

  function bodyOf(request: ModelRequest, { stream }: { stream: boolean }): JsonObject {
    const form = outputFormFor(request, dialect);
    const body = mergeOptions(
      {
        model,
        messages: messagesOf(request.transcript, instructionsInput(request, form, dialect, model)),
        ...(stream ? streamInput(dialect) : {}),
        ...(request.tools.length > 0 ? { tools: toolInputs(request.tools) } : {}),
        ...(request.output ? formatInput(request.output, form) : {}),
        ...settingsInput(request, dialect, model),
      },
      mergeOptions(options.providerOptions ?? {}, request.providerOptions),
    );
    const hasTools = Array.isArray(body.tools) && body.tools.length > 0;
    return hasTools ? { ...toolSettings(request, dialect), ...body } : body;
  }

  return singleTurnAdapter({
    provider: dialect.provider,
    model,
    capabilities: {
      reasoningReplay: (dialect.reasoning ?? 'none') !== 'none',
      serverTools: dialect.serverTools ?? false,
      structuredOutput: (dialect.output ?? 'json_schema') === 'json_schema' ? 'native' : 'instructions',
    },
    connect: connector(dialect, options),
    send: (connection, request, mode) =>
      connection.post('/chat/completions', bodyOf(request, mode), mode.signal),
    reader: (request, context) => new ChatReader(request, dialect, context),
    ending: 'a finish_reason or an error',
    refine: error => markRetryable(error, dialect),
    now: options.now,
  });
}

/** Marks errors caused by the sampled output as retryable: another attempt may sample a valid one. */
function markRetryable(error: ProviderError, { retryableCodes = [] }: ChatDialect): ProviderError {
  if (error.retryable || !readErrorBody(error.raw).codes.some(code => retryableCodes.includes(code))) {
    return error;
  }
  const { message, code, status, retryAfterMs, provider, model, raw } = error;
  const details = { code, status, retryable: true, retryAfterMs, provider, model, raw };
  return new ProviderError(message, details, { cause: error.cause });
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
  const needsText = output !== undefined && form !== 'json_schema';
  const content = needsText ? withOutputSchema(instructions, output) : instructions;
  return content === undefined ? [] : [{ role: roleFor('system', dialect, model), content }];
}

function streamInput(dialect: ChatDialect): JsonObject {
  return { stream: true, ...(dialect.streamMembers ?? { stream_options: { include_usage: true } }) };
}

/** Providers refuse both members in a request without tools. */
function toolSettings({ toolChoice, settings }: ModelRequest, dialect: ChatDialect): JsonObject {
  return {
    tool_choice: choiceInput(toolChoice, dialect),
    ...omitUndefined({ parallel_tool_calls: settings.parallelToolCalls }),
  };
}

function choiceInput(choice: ToolChoice, { requiredChoice }: ChatDialect): JsonValue {
  if (typeof choice !== 'string') return { type: 'function', function: { name: choice.name } };
  return choice === 'required' ? (requiredChoice ?? 'required') : choice;
}

const toolInputs = convertOnce<ToolDefinition>(tools => tools.map(toolInput));

/** A schema without a strict form is sent unchanged. Providers require `properties` in an object schema. */
function toolInput({ name, description, inputSchema, strict }: ToolDefinition): JsonObject {
  const parameters: JsonObject = { ...inputSchema, properties: objectOf(inputSchema.properties) };
  const strictForm = strict === true ? strictSchema(parameters) : undefined;
  const input = { name, description, parameters: strictForm ?? parameters };
  return { type: 'function', function: strictForm ? { ...input, strict: true } : input };
}

function formatInput({ name, schema, strict }: OutputFormat, form: OutputForm): JsonObject {
  if (form === 'instructions') return {};
  if (form === 'json_object') return { response_format: { type: 'json_object' } };
  const strictForm = strict === true ? strictSchema(schema) : undefined;
  const format: JsonObject = {
    name: name.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 64),
    schema: strictForm ?? schema,
    ...(strict === undefined ? {} : { strict: strictForm !== undefined }),
  };
  return { response_format: { type: 'json_schema', json_schema: format } };
}

function settingsInput({ settings }: ModelRequest, dialect: ChatDialect, model: string): JsonObject {
  const { temperature, topP, maxOutputTokens, reasoningEffort } = settings;
  const effort = dialect.effort ?? (value => ({ reasoning_effort: value }));
  const maxTokensMember = dialect.maxTokensMember?.(model) ?? 'max_tokens';
  return {
    ...omitUndefined({ temperature, top_p: topP }),
    ...omitUndefined({ [maxTokensMember]: maxOutputTokens }),
    ...(reasoningEffort === undefined ? {} : effort(reasoningEffort, model)),
  };
}
