// The Chat Completions API, for every provider that implements it; a `ChatDialect` describes how one deviates.

import type { ModelAdapter } from '../../protocol/adapter.ts';
import { ProviderError } from '../../protocol/error.ts';
import { type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { NamesOf } from '../../protocol/options/refuse-unknown.ts';
import type { ModelRequest, OutputFormat, ToolChoice, ToolDefinition } from '../../protocol/turn.ts';
import { convertOnce } from '../http/body-text.ts';
import { CONNECTION_NAMES, type ConnectionOptions, connector, usageFrom } from '../http/connection.ts';
import { readErrorBody } from '../http/provider-errors.ts';
import type { ClientOptions } from '../http/transport.ts';
import { mergeOptions } from '../turn/json-access.ts';
import { singleTurnAdapter } from '../turn/single-turn.ts';
import { formatOf, parametersOf, withOutputSchema, withToolSettings } from '../turn/strict-schema.ts';
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
    const { instructions, output, settings, toolChoice, tools, transcript } = request;
    const form = (tools.length > 0 ? dialect.outputWithTools : undefined) ?? dialect.output ?? 'json_schema';
    const needsText = output !== undefined && form !== 'json_schema';
    const content = needsText ? withOutputSchema(instructions, output) : instructions;
    const head = content === undefined ? [] : [{ role: roleFor('system', dialect, model), content }];
    const streamMembers = dialect.streamMembers ?? { stream_options: { include_usage: true } };
    const body = mergeOptions(
      {
        model,
        messages: messagesOf(transcript, head),
        ...(stream ? { stream, ...streamMembers } : {}),
        ...(tools.length > 0 ? { tools: toolInputs(tools) } : {}),
        ...(output ? formatInput(output, form) : {}),
        ...settingsInput(request, dialect, model),
      },
      mergeOptions(options.providerOptions ?? {}, request.providerOptions),
    );
    return withToolSettings(body, choiceInput(toolChoice, dialect), settings);
  }

  return singleTurnAdapter({
    provider: dialect.provider,
    model,
    capabilities: {
      reasoningReplay: (dialect.reasoning ?? 'none') !== 'none',
      serverTools: dialect.serverTools ?? false,
      structuredOutput:
        (dialect.outputWithTools ?? dialect.output ?? 'json_schema') === 'json_schema'
          ? 'native'
          : 'instructions',
      usage: usageFrom(dialect, options),
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

function choiceInput(choice: ToolChoice, { requiredChoice }: ChatDialect): JsonValue {
  if (typeof choice !== 'string') return { type: 'function', function: { name: choice.name } };
  return choice === 'required' ? (requiredChoice ?? 'required') : choice;
}

const toolInputs = convertOnce<ToolDefinition>(tools => tools.map(toolInput));

function toolInput(tool: ToolDefinition): JsonObject {
  const { parameters, isStrict } = parametersOf(tool);
  const input = { name: tool.name, description: tool.description, parameters };
  return { type: 'function', function: isStrict ? { ...input, strict: true } : input };
}

function formatInput(output: OutputFormat, form: OutputForm): JsonObject {
  if (form === 'instructions') return {};
  const format = form === 'json_object' ? { type: form } : { type: form, json_schema: formatOf(output) };
  return { response_format: format };
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
